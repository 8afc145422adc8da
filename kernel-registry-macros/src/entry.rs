//! A declaration against the image that it names. The rules are those of `kernel_registry_image::declared`; what
//! they say is reported here, where it is written.

use kernel_registry_image::declared::{self, Verdict};
use kernel_registry_image::{Entry, Image};
use proc_macro2::Ident;
use syn::spanned::Spanned;

use crate::model::{Expected, Param};
use crate::report::Report;

/// Finds the kernel that is called `name`: its symbol, or its C++ name with or without namespaces and template arguments.
pub(crate) fn find<'a>(name: &str, image: &'a Image, file: &str) -> Result<&'a Entry, String> {
    image.find(name, file).map_err(|error| error.to_string())
}

/// Compares the parameters. What only the compiler can say is left in them as an expectation.
pub(crate) fn compare(params: &mut [Param], entry: &Entry, name: &Ident, file: &str, report: &mut Report) {
    if let Err(mismatch) = declared::compare_count(params.len(), entry, file) {
        report.at(name, mismatch.message);
        return;
    }
    for (index, param) in params.iter_mut().enumerate() {
        let Param { name, spelled, pass, .. } = &*param;
        let declared = declared::Param { name, spelled, pass: *pass, layout: None };
        match declared.compare(index, entry, file) {
            Verdict::Meets => {
                let known = declared::number_size(declared.element());
                param.expected = known.map_or(Expected::Nothing, |size| Expected::Known { size });
            }
            Verdict::Needs { expected, message } => {
                (param.expected, param.message) = (expected.into(), message);
            }
            Verdict::Wrong(mismatch) => {
                report.push(syn::Error::new(param.element.span(), mismatch.message));
            }
        }
    }
}

impl From<declared::Expected> for Expected {
    fn from(expected: declared::Expected) -> Self {
        match expected {
            declared::Expected::Scalar(scalar) => Expected::Scalar(scalar),
            declared::Expected::Pointer => Expected::Pointer,
            declared::Expected::Layout { size, align } => Expected::Layout { size, align },
        }
    }
}
