//! Compares one declaration with one image, by the rules of `#[gpu_kernel]`.

use kernel_registry_format::KernelRecord;
use kernel_registry_image::comparison::{self, Mismatch, Param, Verdict};
use kernel_registry_image::{Entry, FindError, Image, Partial, Signature};

/// The kernel in the image that a declaration names, and how the two differ.
pub(crate) struct Compared<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) mismatches: Vec<Mismatch>,
}

/// Compares a declaration with the kernel of its symbol, or else of its C++ name. `file` is the image's name in
/// messages.
pub(crate) fn with<'a>(
    kernel: &KernelRecord<'_>,
    image: &'a Image,
    file: &str,
) -> Result<Compared<'a>, FindError> {
    let entry = find(kernel.symbol, image, file)?;
    let mut mismatches = mismatches(kernel, entry, file);
    // If parameters differ, the symbol differs too: report only the parameters.
    if mismatches.is_empty() {
        mismatches.extend(comparison::compare_symbol(kernel.symbol, entry, file).err());
    }
    Ok(Compared { entry, mismatches })
}

/// Where the kernel of this symbol is, if not everywhere and the declaration does not say so.
pub(crate) fn partial(kernel: &KernelRecord<'_>, symbol: &str, image: &Image) -> Option<Partial> {
    image.partial(symbol).filter(|partial| !partial.is_declared(kernel.min_arch))
}

/// The kernel as C++ declares it, or its symbol if that does not tell.
pub(crate) fn cuda(kernel: &KernelRecord<'_>) -> String {
    Signature::of(kernel.symbol).map_or(kernel.symbol.to_owned(), |signature| signature.to_string())
}

fn find<'a>(symbol: &str, image: &'a Image, file: &str) -> Result<&'a Entry, FindError> {
    let found = image.find(symbol, file);
    let (Err(FindError::Missing { unread, .. }), Some(signature)) = (&found, Signature::of(symbol)) else {
        return found;
    };
    let unread = unread.clone();
    image.find(&signature.name, file).map_err(|error| match error {
        // The image has overloads of this name, but not the declared one.
        FindError::Ambiguous { file, names, .. } => {
            FindError::Missing { name: signature.to_string(), file, near: Vec::new(), there: names, unread }
        }
        error => error,
    })
}

fn mismatches(kernel: &KernelRecord<'_>, entry: &Entry, file: &str) -> Vec<Mismatch> {
    let declared: Vec<_> = kernel
        .params
        .iter()
        .map(|param| Param {
            name: param.name,
            spelled: param.ty,
            pass: param.pass,
            layout: Some([param.element_size, param.element_align]),
        })
        .collect();
    let compared = match comparison::compare_params(&declared, entry, file) {
        Ok(compared) => compared,
        Err(mismatch) => return vec![mismatch],
    };
    let own = kernel.params.iter().find_map(|param| param.length);
    if own != compared.length {
        return vec![comparison::other_lengths(own, compared.length, entry, file)];
    }
    let wrong = compared.verdicts.into_iter().filter_map(|verdict| match verdict {
        Verdict::Wrong(mismatch) => Some(mismatch),
        _ => None,
    });
    let mut mismatches: Vec<_> = wrong.collect();
    let block = kernel.block.map(|block| comparison::compare_block(block, entry));
    mismatches.extend(block.and_then(Result::err));
    mismatches
}

#[cfg(test)]
mod tests {
    use kernel_registry_format::{Params, Pass, SliceLength};

    use super::*;

    #[test]
    fn lengths_of_slices_are_as_the_record_says() {
        let ptx = ".version 8.0 .target sm_75 .entry k(.param .u64 x, .param .u64 n) { ret; }";
        let image = kernel_registry_image::read(ptx.as_bytes()).unwrap();
        let x = kernel_registry_format::Param::new("x", "&[f32]", Pass::Slice, 4, 4);
        let compared = |x| {
            let params = [x];
            let kernel = KernelRecord { symbol: "k", params: Params::new(&params), ..KernelRecord::EMPTY };
            let mismatches = with(&kernel, &image, "k.ptx").unwrap().mismatches;
            mismatches.into_iter().map(|mismatch| mismatch.message).collect::<Vec<_>>()
        };
        assert_eq!(compared(x.with_length(SliceLength::Next)), [""; 0]);
        let message = "slices are passed without their lengths here, and with each length as the next parameter to \
                       `k` of `k.ptx`";
        assert_eq!(compared(x), [message]);
    }
}
