//! Reads an earlier file of `cargo kernels declare`, so that the new file keeps what people added.
//!
//! An old declaration is matched to the kernel that its name finds in the current image. The facts that image and source tell are
//! written anew. The rest is kept: the kernel's name in Rust, arguments, types that say at least as much as the new types,
//! documentation, attributes, comments, fields of structs, and all other items. People add to the file itself, because a separate
//! file would need a second syntax.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use kernel_registry_format::Pass;
use kernel_registry_image::comparison::{Param, Verdict};
use kernel_registry_image::{Entry, Image};
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, ExprLit, Fields, FnArg, ForeignItemFn, Item, ItemStruct, Lit, LitStr, Meta, Pat,
    Visibility,
};

use super::known_types::VOID;
use super::types::ParamType;
use crate::failure::Failure;

/// Arguments of `#[gpu_kernel]` that are never kept.
const WRITTEN: [&str; 5] = ["file", "image", "name", "instances", "arch"];

/// The additions of people to an earlier file.
#[derive(Default)]
pub(super) struct Kept {
    /// Lines of the module's documentation, and the module's attributes.
    pub(super) inner: Vec<String>,
    pub(super) uses: Vec<String>,
    /// Structs whose fields people wrote.
    pub(super) structs: BTreeMap<String, String>,
    pub(super) others: Vec<String>,
    kernels: Vec<OldDeclaration>,
}

/// A declaration in an earlier file.
#[derive(Default)]
pub(super) struct OldDeclaration {
    pub(super) name: String,
    pub(super) vis: String,
    pub(super) comments: Vec<String>,
    pub(super) attributes: Vec<String>,
    /// The keys and texts of arguments that can be kept.
    arguments: Vec<(String, String)>,
    docs: Vec<String>,
    generics: Vec<String>,
    params: Vec<(String, String)>,
    /// The kernel's name in the image.
    wanted: String,
    /// The names of a template's instances in the image.
    instances: Vec<String>,
}

impl Kept {
    /// Reads an earlier file. If the file does not exist, nothing is kept.
    pub(super) fn read(path: Option<&Path>) -> Result<Kept, Failure> {
        match path.filter(|path| path.exists()) {
            Some(path) => {
                let text = fs::read_to_string(path).map_err(Failure::of_io(path))?;
                Kept::parse(&text).map_err(|error| Failure::NotRust { path: path.to_owned(), error })
            }
            None => Ok(Kept::default()),
        }
    }

    fn parse(text: &str) -> syn::Result<Kept> {
        let file = syn::parse_file(text)?;
        let mut kept = Kept::default();
        for attribute in &file.attrs {
            match doc(attribute) {
                Some(line)
                    if line.starts_with(" The kernels of `") || line.starts_with(" The structs of `") => {}
                Some(line) => kept.inner.push(format!("//!{line}")),
                None => kept.inner.push(source(text, attribute).to_owned()),
            }
        }
        let mut end = None;
        for item in &file.items {
            let range = item.span().byte_range();
            // Comments before the first item belong to the file header.
            let comments = end.map_or_else(Vec::new, |end| comments(&text[end..range.start]));
            end = Some(range.end);
            kept.enter(item, &text[range], comments, text);
        }
        let last = end.map_or_else(Vec::new, |end| comments(&text[end..]));
        kept.others.extend(last);
        Ok(kept)
    }

    /// Adds an item of the earlier file, with the comments above it.
    fn enter(&mut self, item: &Item, written: &str, comments: Vec<String>, text: &str) {
        let whole = || comments.iter().map(|line| format!("{line}\n")).collect::<String>() + written;
        match item {
            Item::Verbatim(tokens) => match OldDeclaration::parse(tokens, comments.clone(), text) {
                Some(kernel) => self.kernels.push(kernel),
                None => self.others.push(whole()),
            },
            Item::Struct(item) if !is_bytes(item) => {
                self.structs.insert(item.ident.to_string(), whole());
            }
            Item::Struct(_) => {}
            Item::Use(_) if is_import(written) => {}
            Item::Use(_) => self.uses.push(whole()),
            _ => self.others.push(whole()),
        }
    }

    /// Returns the old declaration that has one of these symbols and `generics` generic parameters.
    pub(super) fn kernel(&self, symbols: &[&str], generics: usize, image: &Image) -> Option<&OldDeclaration> {
        let is_match = |kernel: &&OldDeclaration| {
            kernel.generics.len() == generics
                && kernel.symbols(image).iter().any(|symbol| symbols.contains(symbol))
        };
        self.kernels.iter().find(is_match)
    }

    /// Returns the names of old declarations that have additions and are not among the new `names`.
    pub(super) fn lost<'a>(&'a self, names: &BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
        let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let has_more = |kernel: &&OldDeclaration| {
            let has_docs = kernel.docs.iter().any(|line| !line.is_empty() && !is_written(line.trim_start()));
            !kernel.arguments.is_empty() || !kernel.attributes.is_empty() || has_docs
        };
        let kernels = self.kernels.iter().filter(has_more).map(|kernel| kernel.name.as_str());
        kernels.filter(move |name| !names.contains(*name))
    }
}

impl OldDeclaration {
    fn parse(tokens: &TokenStream, comments: Vec<String>, text: &str) -> Option<OldDeclaration> {
        let ForeignItemFn { attrs, vis, sig, .. } = syn::parse2(tokens.clone()).ok()?;
        let vis = if matches!(vis, Visibility::Inherited) { "" } else { source(text, &vis) };
        let mut kernel = OldDeclaration {
            name: source(text, &sig.ident).to_owned(),
            vis: vis.to_owned(),
            comments,
            ..OldDeclaration::default()
        };
        kernel.wanted = kernel.name.trim_start_matches("r#").to_owned();
        let mut is_kernel = false;
        for attribute in &attrs {
            match (doc(attribute), &attribute.meta) {
                (Some(line), _) => kernel.docs.push(line),
                (None, Meta::List(list)) if list.path.is_ident("gpu_kernel") => {
                    is_kernel = true;
                    kernel.read_arguments(&list.tokens, text);
                }
                _ => kernel.attributes.push(source(text, attribute).to_owned()),
            }
        }
        for generic in &sig.generics.params {
            kernel.generics.push(without_spaces(source(text, generic)));
        }
        for input in &sig.inputs {
            let FnArg::Typed(input) = input else { return None };
            let Pat::Ident(_) = &*input.pat else { return None };
            let [name, ty] = [source(text, &input.pat), source(text, &input.ty)];
            kernel.params.push((name.to_owned(), ty.to_owned()));
        }
        is_kernel.then_some(kernel)
    }

    fn read_arguments(&mut self, tokens: &TokenStream, text: &str) {
        let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
        let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
        for argument in tokens.split(is_comma) {
            let [first, .., last] = argument else { continue };
            let key = first.to_string();
            match (key.as_str(), last) {
                ("name", TokenTree::Literal(name)) => {
                    self.wanted = string(name).unwrap_or_default();
                }
                ("instances", TokenTree::Group(list)) => {
                    let names = list.stream().into_iter().filter_map(|token| match token {
                        TokenTree::Literal(name) => string(&name),
                        _ => None,
                    });
                    self.instances.extend(names);
                }
                (known, _) if WRITTEN.contains(&known) => {}
                _ => {
                    let range = first.span().byte_range().start..last.span().byte_range().end;
                    self.arguments.push((key, text[range].to_owned()));
                }
            }
        }
    }

    /// Returns the symbols of the declared kernels in an image.
    fn symbols<'a>(&self, image: &'a Image) -> Vec<&'a str> {
        let found = |name: &String| image.find(name, "").ok().map(|entry| entry.symbol.as_str());
        if self.generics.is_empty() {
            return found(&self.wanted).into_iter().collect();
        }
        let instances = self.instances.iter().filter_map(found);
        let of_template = image.named(&self.wanted).into_iter().map(|entry| entry.symbol.as_str());
        instances.chain(of_template).collect()
    }

    /// Returns the kept arguments whose keys are not in `written`.
    pub(super) fn arguments(&self, written: &[String]) -> Vec<String> {
        let is_new = |key: &str| !written.iter().any(|argument| argument.starts_with(&format!("{key} =")));
        self.arguments.iter().filter(|(key, _)| is_new(key)).map(|(_, text)| text.clone()).collect()
    }

    /// Returns the documentation. `written` replaces the paragraphs that the command wrote before.
    pub(super) fn docs(&self, written: Vec<String>) -> Vec<String> {
        let line = |line: &String| line.strip_prefix(' ').unwrap_or(line).to_owned();
        let lines: Vec<String> = self.docs.iter().map(line).collect();
        let paragraphs: Vec<&[String]> =
            lines.split(|line| line.is_empty()).filter(|lines| !lines.is_empty()).collect();
        let is_written = |lines: &&[String]| matches!(lines, [line] if is_written(line));
        let index = paragraphs.iter().position(is_written).unwrap_or(paragraphs.len());
        let (before, after) = paragraphs.split_at(index);
        let after = after.iter().filter(|lines| !is_written(lines));
        let mut docs: Vec<String> = Vec::new();
        let written = [written.as_slice()];
        for lines in before.iter().chain(&written).chain(after) {
            if !docs.is_empty() {
                docs.push(String::new());
            }
            docs.extend_from_slice(lines);
        }
        docs
    }

    /// Returns the parameters. An old name is kept where the image has no name, and an old type where it says at least as much as
    /// the new type. `is_vague` says that the image tells no types.
    pub(super) fn params(
        &self,
        written: Vec<(String, ParamType)>,
        generics: &[String],
        entry: &Entry,
        is_vague: bool,
    ) -> Vec<(String, String)> {
        let is_same = self.params.len() == written.len() && self.generics == generics;
        let param = |(index, (name, ty)): (usize, (String, ParamType))| {
            let spelled = ty.spelled(&ty.element);
            match self.params.get(index).filter(|_| is_same) {
                None => (name, spelled),
                Some((old_name, old_type)) => {
                    let name = if name == format!("p{index}") { old_name.clone() } else { name };
                    let says_as_much =
                        says_as_much(old_type, &ty, is_vague) && is_right(old_type, index, entry);
                    (name, if says_as_much { old_type.clone() } else { spelled })
                }
            }
        };
        written.into_iter().enumerate().map(param).collect()
    }
}

/// Returns whether an old type says at least as much as the new type. A pointer may replace a slice, an `Option` may replace a
/// plain type, and any type may replace an unknown type.
fn says_as_much(old: &str, new: &ParamType, is_vague: bool) -> bool {
    let (pass, element) = shape(old);
    let is_const = |pass: Pass| matches!(pass, Pass::Slice | Pass::Pointer);
    match (pass, new.pass) {
        (_, Pass::Value) => pass == Pass::Value && is_vague,
        (Pass::Value, _) => new.element == VOID && is_vague,
        _ if new.element == VOID => is_vague || is_const(pass) == is_const(new.pass),
        _ => element == without_spaces(&new.element) && is_const(pass) == is_const(new.pass),
    }
}

/// Returns whether `#[gpu_kernel]` accepts the type for the parameter at this index.
fn is_right(ty: &str, index: usize, entry: &Entry) -> bool {
    let (pass, _) = shape(ty);
    let spelled = without_spaces(ty);
    let param = Param { name: "", spelled: &spelled, pass, layout: None };
    !matches!(param.compare(index, entry, ""), Verdict::Wrong(_))
}

/// Returns how a type is passed, and its element type without spaces.
fn shape(ty: &str) -> (Pass, String) {
    let ty = without_spaces(ty);
    let inner = ty.strip_prefix("Option<").and_then(|inner| inner.strip_suffix('>')).unwrap_or(&ty);
    let slice = |start: &str| inner.strip_prefix(start)?.strip_suffix(']');
    if let Some(element) = slice("&mut[") {
        (Pass::SliceMut, element.to_owned())
    } else if let Some(element) = slice("&[") {
        (Pass::Slice, element.to_owned())
    } else if let Some(element) = inner.strip_prefix("*const") {
        (Pass::Pointer, element.to_owned())
    } else if let Some(element) = inner.strip_prefix("*mut") {
        (Pass::PointerMut, element.to_owned())
    } else {
        (Pass::Value, ty)
    }
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Returns whether this command wrote a paragraph of documentation.
fn is_written(line: &str) -> bool {
    let starts = ["The template `", "A kernel for each type, such as `", "For blocks of at most "];
    let whole = ["Types are those of PTX:", "Machine code tells sizes only"];
    (line.starts_with('`') && (line.ends_with('`') || line.ends_with("whose name carries no types.")))
        || starts.iter().chain(&whole).any(|start| line.starts_with(start))
}

/// Returns whether a struct is a tuple of one array, which this command writes if the fields are unknown.
fn is_bytes(item: &ItemStruct) -> bool {
    matches!(&item.fields, Fields::Unnamed(fields) if fields.unnamed.len() == 1
        && matches!(&fields.unnamed[0].ty, syn::Type::Array(_)))
}

/// Returns whether this command wrote an import.
fn is_import(written: &str) -> bool {
    [
        "use kernel_registry::{KernelParam, gpu_kernel};",
        "use kernel_registry::gpu_kernel;",
        "use kernel_registry::KernelParam;",
    ]
    .contains(&written)
        || (written.starts_with("pub use super::") && written.contains("::structs"))
}

fn doc(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

fn string(literal: &proc_macro2::Literal) -> Option<String> {
    let text: LitStr = syn::parse_str(&literal.to_string()).ok()?;
    Some(text.value())
}

fn source<'a>(text: &'a str, node: &impl Spanned) -> &'a str {
    text.get(node.span().byte_range()).unwrap_or_default()
}

/// Returns the comment lines between two items.
fn comments(gap: &str) -> Vec<String> {
    gap.lines().map(str::trim).filter(|line| line.starts_with("//")).map(str::to_owned).collect()
}
