//! Variants of images that couldn't be read.

use std::collections::BTreeMap;

use kernel_registry_image::Image;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// How many sentences a command writes about one image at most.
const MOST: usize = 8;

/// A variant that couldn't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnreadVariant {
    pub(crate) target: String,
    pub(crate) reason: String,
}

/// Counts the variants that a command couldn't read, and describes them.
#[derive(Clone, Default)]
pub(crate) struct Unread {
    images: usize,
    pub(crate) variants: usize,
    pub(crate) sentences: Vec<String>,
}

impl UnreadVariant {
    /// Returns the unreadable variants of an image.
    pub(crate) fn in_image(image: &Image) -> Vec<Self> {
        let variants = image.unread.iter();
        variants
            .map(|unread| UnreadVariant {
                target: format!("sm_{}", unread.sm),
                reason: unread.error.to_string(),
            })
            .collect()
    }
}

impl Unread {
    pub(crate) fn add(&mut self, file: &str, variants: &[UnreadVariant]) {
        self.images += usize::from(!variants.is_empty());
        self.variants += variants.len();
        self.sentences.extend(sentences(file, variants));
    }

    pub(crate) fn merge(&mut self, other: Unread) {
        self.images += other.images;
        self.variants += other.variants;
        self.sentences.extend(other.sentences);
    }

    /// Fails if there are any.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match *self {
            Unread { variants: 0, .. } => Ok(()),
            Unread { variants, images, .. } => Err(Failure::Unread { variants, images }),
        }
    }
}

/// Returns one sentence for each architecture, with the reason of its first variant.
fn sentences(file: &str, variants: &[UnreadVariant]) -> Vec<String> {
    let mut targets = BTreeMap::<&str, (usize, &str)>::new();
    for UnreadVariant { target, reason } in variants {
        targets.entry(target).or_insert((0, reason)).0 += 1;
    }
    let others = targets.values().skip(MOST).map(|(count, _)| count).sum::<usize>();
    let sentence = |(target, (count, reason)): (&&str, &(usize, &str))| match count {
        1 => format!("a variant of `{file}` for {target} cannot be read: {reason}"),
        _ => format!("{count} variants of `{file}` for {target} cannot be read; the first: {reason}"),
    };
    let mut sentences: Vec<_> = targets.iter().take(MOST).map(sentence).collect();
    if others > 0 {
        sentences.push(format!("{others} variants of `{file}` for other architectures cannot be read"));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_few() {
        let variant = |sm: usize| UnreadVariant { target: format!("sm_{sm:03}"), reason: "why".to_owned() };
        let variants: Vec<_> = (0..100).flat_map(|sm| [variant(sm), variant(sm)]).collect();
        let mut unread = Unread::default();
        unread.add("x", &variants);
        assert_eq!(unread.sentences.len(), MOST + 1);
        assert_eq!(unread.sentences[0], "2 variants of `x` for sm_000 cannot be read; the first: why");
        assert_eq!(unread.sentences[MOST], "184 variants of `x` for other architectures cannot be read");
        assert!(matches!(unread.check(), Err(Failure::Unread { variants: 200, images: 1 })));
    }
}
