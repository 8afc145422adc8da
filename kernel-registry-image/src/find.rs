//! Finds kernels by symbol or C++ name.

use std::fmt;

use crate::names::{EntryIndex, Names};
use crate::{Entry, Image, Signature, near};

/// The most names in an error.
const LISTED: usize = 8;

impl Image {
    /// Returns the kernel with this name: its symbol, or its C++ name with or without namespaces and template
    /// arguments. Hashes of the source's path in a symbol are ignored: see
    /// [`stable_symbol`](crate::stable_symbol). Errors call the image `file`. If several variants have the
    /// kernel, PTX is preferred.
    ///
    /// The first search builds an index of all names, so that thousands of searches among thousands of
    /// kernels stay fast. Later changes of `variants` don't update the index; a clone builds a new one.
    ///
    /// ```
    /// let ptx = ".version 8.0 .target sm_75 .entry _Z5saxpyjfPKfPf() { ret; } .entry other() { ret; }";
    /// let image = kernel_registry_image::read(ptx.as_bytes())?;
    /// assert_eq!(image.find("saxpy", "saxpy.ptx").unwrap().symbol, "_Z5saxpyjfPKfPf");
    /// assert_eq!(
    ///     image.find("saxby", "saxpy.ptx").unwrap_err().to_string(),
    ///     "no kernel `saxby` in `saxpy.ptx`: did you mean `saxpy`?"
    /// );
    /// # Ok::<(), kernel_registry_image::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if no kernel has this name, if several do, or if the kernel can't be used: see [`FindError`].
    pub fn find(&self, name: &str, file: &str) -> Result<&Entry, FindError> {
        let found = self.named(name);
        let (called, file) = (name.to_owned(), file.to_owned());
        let Some(first) = found.first() else { return Err(self.missing(called, file)) };
        if found.iter().any(|entry| entry.symbol != first.symbol) {
            return Err(FindError::Ambiguous { name: called, file, names: distinct(&found) });
        }
        let sizes = |entry: &Entry| entry.params.iter().map(|param| param.size).collect::<Vec<_>>();
        if found.iter().any(|entry| sizes(entry) != sizes(first)) {
            return Err(FindError::VariantsDiffer { name: first.name().to_owned(), file });
        }
        // PTX has more facts about parameters than machine code.
        Ok(found.iter().find(|entry| entry.tells_types()).unwrap_or(first))
    }

    /// Returns all kernels with this name, in the order of the variants. Usually each variant has one.
    pub fn named(&self, name: &str) -> Vec<&Entry> {
        self.entries(self.names().indices(name)).collect()
    }

    /// Returns the C++ signatures of all instances of a template. Its namespaces may be left out.
    pub fn instances_of(&self, template: &str) -> Vec<&Signature> {
        let indices = self.names().names.get(template).map_or(&[][..], Vec::as_slice);
        let signatures = self.entries(indices).filter_map(|entry| entry.signature.as_ref());
        signatures.filter(|signature| !signature.template_args.is_empty()).collect()
    }

    fn names(&self) -> &Names {
        self.index.get(&self.variants)
    }

    fn entries<'a>(&'a self, indices: &'a [EntryIndex]) -> impl Iterator<Item = &'a Entry> {
        indices.iter().filter_map(|index| index.entry(&self.variants))
    }

    fn missing(&self, name: String, file: String) -> FindError {
        let all = || self.variants.iter().flat_map(|variant| &variant.entries);
        let near = near(&name, all()).into_iter().map(str::to_owned).collect();
        let mut there: Vec<String> = all().map(|entry| entry.name().to_owned()).collect();
        there.sort();
        there.dedup();
        let unread = self.unread.first().map(|unread| unread.error.to_string());
        FindError::Missing { name, file, near, there, unread }
    }
}

/// Returns names that distinguish the kernels: C++ names, or symbols for overloads.
fn distinct(found: &[&Entry]) -> Vec<String> {
    let sorted = |name: fn(&Entry) -> &str| {
        let mut names: Vec<_> = found.iter().map(|entry| name(entry).to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let names = sorted(Entry::name);
    // Overloads share their C++ name, as do kernels of several anonymous namespaces. Only symbols distinguish
    // them.
    if names.len() == 1 { sorted(|entry| &entry.symbol) } else { names }
}

/// Why a kernel wasn't found or can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindError {
    /// No kernel has this name.
    Missing {
        /// The name that was searched for.
        name: String,
        /// The name of the image.
        file: String,
        /// Similar names, the most similar first.
        near: Vec<String>,
        /// The names of all kernels in the image.
        there: Vec<String>,
        /// A sentence about why a variant can't be read. The kernel may be in that variant.
        unread: Option<String>,
    },
    /// Several kernels have this name.
    Ambiguous {
        /// The name that was searched for.
        name: String,
        /// The name of the image.
        file: String,
        /// Longer names, which distinguish the kernels.
        names: Vec<String>,
    },
    /// The kernel takes different parameters in different variants.
    VariantsDiffer {
        /// The kernel's C++ name.
        name: String,
        /// The name of the image.
        file: String,
    },
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |names: &[String], between: &str| {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(between)
        };
        match self {
            FindError::Missing { name, file, near, there, unread } => {
                match (near.as_slice(), there.as_slice()) {
                    (_, []) => write!(f, "`{file}` holds no kernels")?,
                    ([], there) => {
                        let more = if there.len() > LISTED { " and others" } else { "" };
                        let listed = quoted(&there[..there.len().min(LISTED)], ", ");
                        write!(f, "no kernel `{name}` in `{file}`: there are {listed}{more}")?;
                    }
                    (near, _) => {
                        let near = quoted(near, " or ");
                        write!(f, "no kernel `{name}` in `{file}`: did you mean {near}?")?;
                    }
                }
                match unread {
                    Some(error) => write!(f, " (a variant of it cannot be read: {error})"),
                    None => Ok(()),
                }
            }
            FindError::Ambiguous { name, file, names } => write!(
                f,
                "several kernels of `{file}` are called `{name}`: say which one, as in `name = \"{}\"`; there are {}",
                names.first().map_or("", String::as_str),
                quoted(names, ", ")
            ),
            FindError::VariantsDiffer { name, file } => {
                write!(f, "`{name}` takes other parameters in one variant of `{file}` than in another")
            }
        }
    }
}

impl std::error::Error for FindError {}

#[cfg(test)]
mod tests {
    use crate::{read, stable_symbol};

    const PTX: &str = ".version 8.0 .target sm_75
        .entry _ZN2ns5twiceEPf(.param .u64 x) { ret; }
        .entry _Z5twicePd(.param .u64 x) { ret; }
        .entry plain() { ret; }
        .version 8.0 .target sm_90
        .entry plain() { ret; }
        .entry differs(.param .u32 n) { ret; }
        .version 8.0 .target sm_100
        .entry differs(.param .u64 n) { ret; }";

    #[test]
    fn kernels_are_found_by_symbol_and_by_name_in_all_variants() {
        let image = read(PTX.as_bytes()).unwrap();
        let symbol = |name: &str| image.find(name, "x.ptx").map(|entry| entry.symbol.as_str());
        assert_eq!(symbol("plain"), Ok("plain"));
        assert_eq!(symbol("ns::twice"), Ok("_ZN2ns5twiceEPf"));
        assert_eq!(symbol("_Z5twicePd"), Ok("_Z5twicePd"));
        assert_eq!(
            symbol("twice").unwrap_err().to_string(),
            "several kernels of `x.ptx` are called `twice`: say which one, as in `name = \"ns::twice\"`; \
             there are `ns::twice`, `twice`"
        );
        assert_eq!(
            symbol("differs").unwrap_err().to_string(),
            "`differs` takes other parameters in one variant of `x.ptx` than in another"
        );
    }

    #[test]
    fn kernels_of_anonymous_namespaces_are_found_and_told_apart() {
        let ptx = ".version 8.0 .target sm_75
            .entry _ZN40_GLOBAL__N__00000000_8_types_cu_34106f846hiddenEj(.param .u32 n) { ret; }
            .entry _ZN40_GLOBAL__N__00000000_8_types_cu_34106f844bothEj(.param .u32 n) { ret; }
            .entry _ZN40_GLOBAL__N__11111111_8_other_cu_9a3c71e24bothEj(.param .u32 n) { ret; }
            .entry _Z5outerj(.param .u32 n) { ret; }
            .entry _ZN40_GLOBAL__N__00000000_8_types_cu_34106f845outerEj(.param .u32 n) { ret; }";
        let image = read(ptx.as_bytes()).unwrap();
        let find = |name: &str| image.find(name, "x.ptx").map(|entry| entry.symbol.as_str());
        let hidden = "_ZN40_GLOBAL__N__00000000_8_types_cu_34106f846hiddenEj";
        for name in ["hidden", "(anonymous namespace)::hidden", hidden] {
            assert_eq!(find(name), Ok(hidden), "{name}");
        }
        let [first, second] = ["00000000_8_types_cu_34106f84", "11111111_8_other_cu_9a3c71e2"]
            .map(|hash| format!("_ZN40_GLOBAL__N__{hash}4bothEj"));
        assert_eq!(
            find("both").unwrap_err().to_string(),
            format!(
                "several kernels of `x.ptx` are called `both`: say which one, as in `name = \"{first}\"`; there are \
                 `{first}`, `{second}`"
            )
        );
        assert_eq!(find(&second), Ok(second.as_str()));
        let moved = hidden.replace("00000000", "22222222");
        assert_eq!(find(&moved), Ok(hidden), "compiled in another folder");
        assert_eq!(find(&stable_symbol(hidden)), Ok(hidden));
        assert!(find(&first.replace("00000000", "22222222")).is_err(), "it could be either");
        let ambiguous = find("outer").unwrap_err().to_string();
        assert!(ambiguous.contains("as in `name = \"(anonymous namespace)::outer\"`"), "{ambiguous}");
        assert!(find("(anonymous namespace)::outer").is_ok());
    }

    #[test]
    fn an_image_that_has_been_searched_equals_one_that_has_not() {
        let image = read(PTX.as_bytes()).unwrap();
        let clone = image.clone();
        assert!(image.find("plain", "x.ptx").is_ok());
        assert_eq!(image, clone);
        assert!(image.clone().find("plain", "x.ptx").is_ok());
    }
}
