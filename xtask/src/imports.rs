//! Finds out which files of a crate import each other. Reads the paths in `use` and in code from the tokens, and follows each path
//! through re-exports to the file that declares the item. The files that re-export the item are imported, too. Code that only tests
//! compile is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use crate::run::Outcome;

/// For each file, the files that it imports, each with the first line and the path that import it.
pub(crate) type Imports = BTreeMap<PathBuf, BTreeMap<PathBuf, (usize, String)>>;

/// Reads the imports of the crate that begins with this file.
pub(crate) fn read_imports(root: &Path) -> Outcome<Imports> {
    let mut modules = Modules(Vec::new());
    modules.read_file(None, root.to_owned(), folder_of(root))?;
    let mut imports = Imports::new();
    for (number, module) in modules.0.iter().enumerate() {
        let of_uses =
            module.uses.iter().filter(|import| !import.is_public || module.words.contains(&import.name));
        for Import { path, line, name, .. } in of_uses.chain(&module.paths) {
            let mut lookup = Lookup::default();
            let Some(found) =
                modules.find(number, path, &mut lookup).filter(|found| found.is_item || name == "*")
            else {
                continue;
            };
            let from = &module.file;
            if *from == modules.0[found.module].file {
                continue;
            }
            // A module's own submodules may use its re-exports.
            let is_outside = |to: &usize| !module.folder.starts_with(&modules.0[*to].folder);
            for to in lookup.re_exported_by.into_iter().filter(is_outside).chain([found.module]) {
                let to = &modules.0[to].file;
                let first = imports
                    .entry(from.clone())
                    .or_default()
                    .entry(to.clone())
                    .or_insert((*line, String::new()));
                if first.0 >= *line {
                    *first = (*line, path.join("::"));
                }
            }
        }
    }
    Ok(imports)
}

#[derive(Default)]
struct Module {
    file: PathBuf,
    /// The folder with the files of the module's submodules.
    folder: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    uses: Vec<Import>,
    /// Paths in code.
    paths: Vec<Import>,
    /// Names in code that are not part of a path.
    words: BTreeSet<String>,
    /// Names of items that the module declares.
    items: BTreeSet<String>,
}

#[derive(Clone)]
struct Import {
    path: Vec<String>,
    line: usize,
    /// The name that the import gives to the item, or `*` for all names of the path.
    name: String,
    /// Whether this is a re-export. Then the file itself imports the item only if it uses the name.
    is_public: bool,
}

/// The module that a path names, or that has the item which the path names.
struct Found {
    module: usize,
    is_item: bool,
}

/// The state of one lookup.
#[derive(Default)]
struct Lookup {
    /// The names that were looked up already, each with its module. They end lookups in modules that re-export each other.
    asked: BTreeSet<(usize, String)>,
    /// The modules whose `use` led to the item.
    re_exported_by: BTreeSet<usize>,
}

/// The tokens of a file: words, marks, brackets and attributes, each with its line.
type Tokens = Peekable<IntoIter<(String, usize)>>;

struct Modules(Vec<Module>);

impl Modules {
    fn read_file(&mut self, parent: Option<usize>, file: PathBuf, folder: PathBuf) -> Outcome<usize> {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let stream = text.parse::<TokenStream>().map_err(|error| format!("{}: {error}", file.display()))?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        self.0.push(Module { file, folder, parent, ..Module::default() });
        let number = self.0.len() - 1;
        self.read_tokens(number, &mut tokens.into_iter().peekable())?;
        Ok(number)
    }

    /// Reads a module to its end.
    fn read_tokens(&mut self, number: usize, tokens: &mut Tokens) -> Outcome {
        const ITEMS: &[&str] = &["const", "enum", "fn", "static", "struct", "trait", "type", "union"];
        let (mut depth, mut before, mut place) = (0_usize, String::new(), None);
        while let Some((text, line)) = tokens.next() {
            match text.as_str() {
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                "mod" if tokens.peek().is_some_and(|(next, _)| is_word(next)) => {
                    let name = tokens.next().unwrap_or_default().0;
                    let is_inline = tokens.next().is_some_and(|(next, _)| next == "{");
                    let child =
                        self.read_child(number, &name, place.take(), is_inline.then_some(&mut *tokens))?;
                    self.0[number].children.insert(name, child);
                }
                "use" => {
                    let is_public = matches!(before.as_str(), "pub" | ")");
                    read_use(
                        tokens,
                        &Import { path: Vec::new(), line, name: String::new(), is_public },
                        &mut self.0[number].uses,
                    );
                }
                _ if text.starts_with("#[cfg(") && text.contains("(test") => skip_item(tokens),
                _ if text.starts_with("#[path") => place = text.split('"').nth(1).map(str::to_owned),
                _ if depth == 0 && ITEMS.contains(&before.as_str()) => {
                    self.0[number].items.insert(text.clone());
                }
                _ if is_word(&text) => {
                    let mut path = vec![text.clone()];
                    while tokens.next_if(|(next, _)| next == "::").is_some() {
                        path.extend(tokens.next_if(|(next, _)| is_word(next)).map(|(next, _)| next));
                    }
                    match &path[..] {
                        // A macro can have a function's name: `write!`.
                        [_] if tokens.peek().is_some_and(|(next, _)| next == "!") => {}
                        [word] => drop(self.0[number].words.insert(word.clone())),
                        _ => self.0[number].paths.push(Import {
                            path,
                            line,
                            name: String::new(),
                            is_public: false,
                        }),
                    }
                }
                _ => {}
            }
            before = text;
        }
        Ok(())
    }

    /// Reads a module that is declared in another: its body, or else its file.
    fn read_child(
        &mut self,
        parent: usize,
        name: &str,
        place: Option<String>,
        body: Option<&mut Tokens>,
    ) -> Outcome<usize> {
        let Module { file, folder, .. } = &self.0[parent];
        let within = folder.join(name);
        if let Some(tokens) = body {
            self.0.push(Module {
                file: file.clone(),
                folder: within,
                parent: Some(parent),
                ..Module::default()
            });
            let number = self.0.len() - 1;
            self.read_tokens(number, tokens)?;
            return Ok(number);
        }
        let (file, within) = match place.map(|place| folder_of(file).join(place)) {
            Some(file) => (file.clone(), folder_of(&file)),
            None if within.with_extension("rs").is_file() => (within.with_extension("rs"), within),
            None => (within.join("mod.rs"), within),
        };
        self.read_file(Some(parent), file, within)
    }

    /// Returns what a path in a module names, if that is in this crate.
    fn find(&self, from: usize, path: &[String], lookup: &mut Lookup) -> Option<Found> {
        let mut at = from;
        for (place, name) in path.iter().enumerate() {
            let found = match name.as_str() {
                "crate" => Some(Found { module: 0, is_item: false }),
                "self" => Some(Found { module: at, is_item: false }),
                "super" => self.0[at].parent.map(|module| Found { module, is_item: false }),
                _ => self.find_name(at, name, place + 1 == path.len(), lookup),
            };
            match found {
                Some(Found { module, is_item: false }) => at = module,
                None if place > 0 => return Some(Found { module: at, is_item: true }),
                found => return found,
            }
        }
        Some(Found { module: at, is_item: false })
    }

    /// Returns what a name in a module means. A module and a function can share a name: where a path ends, the function is meant.
    fn find_name(&self, at: usize, name: &str, is_last: bool, lookup: &mut Lookup) -> Option<Found> {
        let module = &self.0[at];
        let child = module.children.get(name).map(|&module| Found { module, is_item: false });
        if child.is_some() && !is_last || !lookup.asked.insert((at, name.to_owned())) {
            return child;
        }
        if module.items.contains(name) {
            return Some(Found { module: at, is_item: true });
        }
        let named = module
            .uses
            .iter()
            .find(|import| import.name == name)
            .and_then(|import| self.find(at, &import.path, lookup));
        if child.is_some() && named.is_none() {
            return child;
        }
        let mut globs = module.uses.iter().filter(|import| import.name == "*");
        let found = named.or_else(|| {
            globs.find_map(|glob| {
                let module = self.find(at, &glob.path, lookup)?.module;
                self.find_name(module, name, is_last, lookup)
            })
        });
        lookup.re_exported_by.extend(found.as_ref().map(|_| at));
        found
    }
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(file).to_owned()
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Lists the tokens, with the brackets of groups. `::` is one token, and so is an attribute.
fn flatten(stream: TokenStream, tokens: &mut Vec<(String, usize)>) {
    let is_colon = |tree: &TokenTree| matches!(tree, TokenTree::Punct(mark) if mark.as_char() == ':');
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Punct(mark)
                if mark.as_char() == '#' && matches!(trees.peek(), Some(TokenTree::Group(_))) =>
            {
                let attribute = trees.next().map(|attribute| attribute.to_string().replace(' ', ""));
                tokens.push((format!("#{}", attribute.unwrap_or_default()), line));
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => {
                let is_path = mark.spacing() == Spacing::Joint && trees.next_if(is_colon).is_some();
                tokens.push((if is_path { "::" } else { ":" }.to_owned(), line));
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    _ => ("(", ")"),
                };
                tokens.push((open.to_owned(), line));
                flatten(group.stream(), tokens);
                tokens.push((close.to_owned(), group.span_close().start().line));
            }
            tree => tokens.push((tree.to_string(), line)),
        }
    }
}

/// Reads the imports after `use`, or in the braces after the path `within`.
fn read_use(tokens: &mut Tokens, within: &Import, uses: &mut Vec<Import>) {
    let mut import = within.clone();
    while let Some((text, line)) = tokens.next_if(|(next, _)| !matches!(next.as_str(), ";" | "," | "}")) {
        match text.as_str() {
            "{" => loop {
                read_use(tokens, &import, uses);
                if tokens.next().is_none_or(|(next, _)| next == "}") {
                    return;
                }
            },
            "*" => import.name = text,
            "as" => import.name = tokens.next().unwrap_or_default().0,
            "self" if !import.path.is_empty() => {}
            _ if is_word(&text) => (import.path, import.line) = ([import.path, vec![text]].concat(), line),
            _ => {}
        }
    }
    if import.name.is_empty() {
        import.name = import.path.last().cloned().unwrap_or_default();
    }
    uses.push(import);
}

/// Passes over an item, a field or a match arm.
fn skip_item(tokens: &mut Tokens) {
    let mut depth = 0_usize;
    while let Some((text, _)) = tokens.next_if(|(next, _)| depth > 0 || next != "}") {
        match text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" if depth == 1 => return,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            ";" | "," if depth == 0 => return,
            _ => {}
        }
    }
}
