//! Compares a declaration with the kernel in its image, by the rules of `kernel_registry_image::comparison`.
//! Differences become compile errors at the offending tokens.

use kernel_registry_cuda::fit::Device;
use kernel_registry_format::{RustType, SliceLength};
use kernel_registry_image::comparison::{
    self, BlockRule, Compared, Expected, OtherNames, compare_block, compare_names, compare_params,
};
use kernel_registry_image::{Entry, Needs, StackFrames};
use syn::Expr;
use syn::spanned::Spanned;

use super::declaration::block::Block;
use super::declaration::bytes::number;
use super::declaration::param::Param;
use super::declaration::{Declaration, Instance, Name};
use super::facts;
use super::image::{Content, Image};
use crate::errors::Errors;

/// The image's facts about an instance, and the checks that are left to the compiler.
pub(crate) struct Verdict {
    /// The name of the kernel in the image.
    pub(crate) symbol: String,
    /// One layout for each parameter.
    pub(crate) layouts: Vec<Layout>,
    /// Where the kernel finds the lengths of slices, if it takes lengths.
    pub(crate) length: Option<SliceLength>,
    /// The source's names of the parameters, if they differ, and the text of the lint.
    pub(crate) other_names: Option<(String, String)>,
    /// The blocks that the kernel allows, and the error message for others, to which the compiler appends
    /// their threads.
    pub(crate) block: Option<(BlockRule, String)>,
    /// The only block that the kernel can be launched with, if it was compiled for a single size.
    pub(crate) default_block: Option<[u32; 3]>,
    /// The most dynamic shared memory of a block, and the error message for more, to which the compiler
    /// appends the bytes.
    pub(crate) shared: Option<(u32, String)>,
    pub(crate) frames: StackFrames,
    pub(crate) needs: Needs,
}

/// How to find the size and alignment of a parameter's value or element.
pub(crate) enum Layout {
    /// A number type of this size, which is also its alignment.
    Number(u32),
    /// Any type. The compiler computes the layout, but checks nothing.
    Any,
    /// A type to compare with the image. The compiler computes the layout, and compares the type. The text is
    /// the error message if the type differs.
    Checked(Expected, String),
}

/// Returns the verdict of each instance, or `None` if there was an error.
pub(crate) fn compare_all(
    name: &Name,
    declaration: &Declaration,
    image: &Image,
    errors: &mut Errors,
) -> Option<Vec<Verdict>> {
    // All instances usually have the same error, so this stops at the first.
    let verdict = |instance| judge(name, declaration, instance, image, errors);
    let verdicts: Vec<Verdict> = declaration.instances.iter().map(verdict).collect::<Option<_>>()?;
    // All instances share one `launch`, so they must agree on lengths.
    if verdicts.iter().any(|verdict| verdict.length != verdicts[0].length) {
        let function = &name.function;
        let file = &image.file;
        errors.at(
            function,
            format!("some instances of `{function}` in `{file}` take lengths of slices, and others do not: declare those as another kernel"),
        );
        return None;
    }
    Some(verdicts)
}

fn judge(
    name: &Name,
    declaration: &Declaration,
    instance: &Instance,
    image: &Image,
    errors: &mut Errors,
) -> Option<Verdict> {
    let Image { file, content, .. } = image;
    let Some(Content { facts, .. }) = content else { return Some(without_image(declaration, instance)) };
    let mut own = Errors::default();
    let entry = match facts::entry(&declaration.wanted, &instance.args, facts, file) {
        Ok(entry) => entry,
        Err(error) => {
            errors.push(error);
            return None;
        }
    };
    let (layouts, length) = layouts(&instance.params, name, entry, file, &mut own);
    let verdict = Verdict {
        other_names: other_names(&instance.params, entry, file, &mut own),
        symbol: entry.symbol.clone(),
        layouts,
        length,
        block: instance.block.as_ref().and_then(|block| block_rule(block, entry, &mut own)),
        default_block: match BlockRule::from_entry(entry) {
            Some(BlockRule::Exactly(block)) => Some(block),
            _ => None,
        },
        shared: instance
            .shared
            .as_ref()
            .and_then(|shared| shared_limit(shared, entry, facts, file, declaration.min_arch, &mut own)),
        frames: facts.stack_frames(&entry.symbol),
        needs: facts.needs(&entry.symbol),
    };
    own.propagate(Some(verdict)).map_err(|own| errors.append(own)).ok()
}

/// Returns the verdict of an instance without an image, which only has the declaration.
fn without_image(declaration: &Declaration, instance: &Instance) -> Verdict {
    Verdict {
        symbol: format!("{}{}", declaration.wanted.name, instance.args.spelled),
        layouts: instance.params.iter().map(|_| Layout::Any).collect(),
        length: None,
        other_names: None,
        block: None,
        default_block: None,
        shared: None,
        frames: StackFrames::KNOWN,
        needs: Needs::NONE,
    }
}

fn layouts(
    params: &[Param],
    name: &Name,
    entry: &Entry,
    file: &str,
    errors: &mut Errors,
) -> (Vec<Layout>, Option<SliceLength>) {
    let declared = params.iter();
    let declared: Vec<_> = declared
        .map(|Param { name, spelled, pass, .. }| comparison::Param {
            name,
            spelled,
            pass: *pass,
            layout: None,
        })
        .collect();
    let Compared { length, verdicts, .. } = match compare_params(&declared, entry, file) {
        Ok(compared) => compared,
        Err(mismatch) => {
            errors.at(&name.function, mismatch.message);
            return (Vec::new(), None);
        }
    };
    let layout =
        |((verdict, declared), param): ((comparison::Verdict, &comparison::Param<'_>), &Param)| match verdict
        {
            comparison::Verdict::Meets => RustType::named(declared.element())
                .and_then(RustType::size)
                .map_or(Layout::Any, Layout::Number),
            comparison::Verdict::Needs { expected, message } => Layout::Checked(expected, message),
            comparison::Verdict::Wrong(mismatch) => {
                errors.push(syn::Error::new(param.element.span(), mismatch.message));
                Layout::Any
            }
        };
    (verdicts.into_iter().zip(&declared).zip(params).map(layout).collect(), length)
}

/// Compares the names of parameters with the source's. Swapped parameters are an error.
fn other_names(params: &[Param], entry: &Entry, file: &str, errors: &mut Errors) -> Option<(String, String)> {
    let declared: Vec<&str> = params.iter().map(|param| &*param.name).collect();
    let source: Vec<&str> = entry.param_names.iter().map(String::as_str).collect();
    match compare_names(entry.name(), &declared, &source, file)? {
        OtherNames::Swapped(index, mismatch) => {
            errors.at(&params[index].ident, mismatch.message);
            None
        }
        OtherNames::Differ(message) => Some((source.join(", "), message)),
    }
}

/// Compares a block that is written in numbers with the kernel's launch bounds.
fn block_rule(block: &Block, entry: &Entry, errors: &mut Errors) -> Option<(BlockRule, String)> {
    let rule = BlockRule::from_entry(entry)?;
    if let Some(Err(mismatch)) = block.numbers().map(|block| compare_block(block, entry)) {
        errors.at(&block.axes[0], mismatch.message);
    }
    Some((rule, rule.message(entry)))
}

/// Compares dynamic shared memory with the limit of the oldest device that the kernel supports: the
/// declaration's `arch`, or else the oldest device that the image has code for.
fn shared_limit(
    shared: &Expr,
    entry: &Entry,
    image: &kernel_registry_image::Image,
    file: &str,
    min_arch: Option<u32>,
    errors: &mut Errors,
) -> Option<(u32, String)> {
    let oldest = image.variants.iter().map(|variant| variant.target.sm).min()?;
    let arch = min_arch.unwrap_or(oldest).max(oldest);
    let variants = image.named(&entry.symbol);
    let fixed = variants.iter().filter_map(|entry| Some(entry.resources.as_ref()?.static_shared)).max();
    let fixed = fixed.unwrap_or(0);
    let most = Device::block_shared_on(arch);
    let bytes = most.saturating_sub(fixed);
    let newer = [80, 90].into_iter().filter(|newer| *newer > arch && Device::block_shared_on(*newer) > most);
    let newer: Vec<String> = newer
        .map(|newer| {
            format!("{} with `arch = \">={newer}\"`", Device::block_shared_on(newer).saturating_sub(fixed))
        })
        .collect();
    let newer = if newer.is_empty() { String::new() } else { format!(" ({})", newer.join(", ")) };
    let fixed = if fixed > 0 { format!(" in addition to its {fixed} static ones") } else { String::new() };
    let reason = if min_arch.is_some() { String::new() } else { format!(", which `{file}` is for,") };
    let message = format!(
        "on sm_{arch}{reason} a block can have {bytes} bytes of dynamic shared memory{fixed}{newer}, and this is "
    );
    if let Some(asked) = number(shared).filter(|asked| *asked > bytes) {
        errors.at(shared, format!("{message}{asked}"));
    }
    Some((bytes, message))
}
