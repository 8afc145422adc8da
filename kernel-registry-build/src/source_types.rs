//! Parses CUDA sources for facts that symbols don't encode: the types of `extern "C"` kernels, the fields of
//! structs, and the names of parameters.
//!
//! A macro can change what a name means, so types that use a macro of the source, its headers or the options
//! count as unknown. A preprocessor would be exact, but would have to run for every source, and machines with
//! prebuilt images may have none.

use std::fs;
use std::path::Path;

use kernel_registry_format::index;
use kernel_registry_image::source;

use crate::Image;
use crate::includes::Includes;
use crate::options::Options;

/// Returns a source's structs, its kernels' parameter names, and the signatures of its `extern "C"` kernels,
/// in the form of the index. Empty if the source isn't UTF-8.
pub(crate) fn read(package: &Path, image: &Image, options: &Options) -> String {
    let text = fs::read_to_string(package.join(&image.source)).unwrap_or_default();
    let declarations = |is_macro: &dyn Fn(&str) -> bool| {
        let signatures = source::c_signatures(&text, is_macro);
        let structs = Some(source::certain_structs(&text, is_macro)).filter(|structs| !structs.is_empty());
        structs.into_iter().chain(signatures.iter().map(ToString::to_string)).collect::<Vec<_>>()
    };
    if image.file.is_none() {
        return String::new();
    }
    let names = Some(source::param_names(&text)).filter(|names| !names.is_empty());
    let mut fields: Vec<_> = names.into_iter().map(|names| index::NAMES.to_owned() + &names).collect();
    // Most sources have neither structs nor `extern "C"` kernels, so their headers don't have to be read.
    if !declarations(&|_| false).is_empty() {
        let macros = Includes::follow(package, &image.source, options).macros;
        fields.extend(declarations(&|name| macros.contains(name)));
    }
    fields.join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_of_headers_and_options_hide_types() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "a.cu",
            "#include \"a.h\"\nstruct Pair { double a, b; }; struct Other { float a; };\n\
             extern \"C\" __global__ void k(int n, float* x, double* y, short* z) {}",
        );
        write("a.h", "#define short long\n#if 0\n#define float double\n#endif\n");
        let options = Options { defines: vec!["int=long".to_owned()], ..Options::default() };
        let image = |file: Option<&str>| Image {
            source: "a.cu".to_owned(),
            file: file.map(Into::into),
            origin: "a test".to_owned(),
        };
        assert_eq!(
            read(folder.path(), &image(Some("a.ptx")), &options),
            "names k(n, x, y, z)\tstruct Pair { double a; double b; };\tk(?, ?, double*, ?)"
        );
        assert_eq!(read(folder.path(), &image(None), &options), "");
    }
}
