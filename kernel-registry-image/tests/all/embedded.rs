//! Tests that images are found within other bytes.

use std::time::Duration;

use crate::watch::Watch;
use kernel_registry_cuda::fatbin::{self, Kind, Part};
use kernel_registry_image::embedded::{Search, texts};
use kernel_registry_image::{Image, read};

fn found(bytes: &[u8], length: usize) -> Vec<Image> {
    Search::new(bytes, [length]).images(length)
}

#[test]
fn every_image_is_found_among_all_others() {
    let images = crate::common::images();
    assert!(images.len() > 40, "{}", images.len());
    // The images follow each other without a gap, which is the worst layout that a linker might choose.
    let all = images.iter().flat_map(|(_, bytes)| bytes).copied().collect::<Vec<u8>>();
    let search = Search::new(&all, images.iter().map(|(_, bytes)| bytes.len()));
    for (name, bytes) in &images {
        let expected = read(bytes).unwrap();
        let mut found = search.images(bytes.len());
        assert!(found.contains(&expected), "{name}");
        // Other images may have this length by chance, but have other kernels.
        let symbols = |image: &Image| -> Vec<String> {
            image
                .variants
                .iter()
                .flat_map(|variant| &variant.entries)
                .map(|entry| entry.symbol.clone())
                .collect()
        };
        found.retain(|image| symbols(image) == symbols(&expected));
        let same = images.iter().filter(|(_, other)| other.len() == bytes.len()).count();
        assert!(found.len() <= same, "{name}: {} of {same}", found.len());
    }
}

const PTX: &str = ".version 8.0\n.target sm_75\n.entry one() { ret; }\n";

#[test]
fn comments_are_part_of_the_text_and_what_precedes_them_is_not() {
    let release = "// Cuda compilation tools, release 13.0, V13.0.88\n";
    for comments in ["", "\n\n", "//\n", "/* mine */\n", "/* of\nlines */\n// and\n  // more\n\n"] {
        let text = format!("{comments}{release}{comments}{PTX}");
        for before in ["", "junk", "junk\n", "junk\0", "http://junk ", "}\n", "*/"] {
            let program = format!("{before}{text}junk behind");
            let found = found(program.as_bytes(), text.len());
            assert_eq!(found, [read(text.as_bytes()).unwrap()], "{program}");
            assert_eq!(found[0].variants[0].toolkit.as_deref(), Some("13.0"));
        }
    }
}

#[test]
fn a_text_may_end_with_zeros_or_a_comment() {
    for end in ["\0", "\n\0\0", "// the end\n", "/* the end */"] {
        let text = format!("{PTX}{end}");
        assert_eq!(found(format!("{text}junk").as_bytes(), text.len()).len(), 1, "{end:?}");
    }
}

#[test]
fn neighbours_of_other_lengths_are_not_found() {
    // The second text begins with a comment, so that the first can be read beyond its end.
    let longer = format!("// longer\n{PTX}").replace("one", "two");
    let program = format!("{PTX}{longer}");
    let found = found(program.as_bytes(), longer.len());
    assert_eq!(found, [read(longer.as_bytes()).unwrap()]);
}

#[test]
fn equal_images_count_once_and_others_of_the_length_each() {
    let other = PTX.replace("one", "two");
    let program = format!("{PTX}--{other}--{PTX}");
    assert_eq!(found(program.as_bytes(), PTX.len()).len(), 2);
    assert_eq!(found(program.as_bytes(), PTX.len() + 7).len(), 0);
    assert_eq!(found(program.as_bytes(), usize::MAX).len(), 0);
}

/// An earlier version took quadratic time for a program with many images of different lengths: it compared
/// each length with each text, and read everything that ends with a kernel.
#[test]
fn of_many_texts_each_is_read_once() {
    const TEXTS: usize = 1500;
    let kernels: String = (0..40).map(|number| format!(".entry k{number:02}() {{ ret; }}\n")).collect();
    let text = |index: usize| {
        let comment = "-".repeat(6 * index);
        format!(".version 8.0\n.target sm_75 //{comment}\n{kernels}.entry last{index:04}() {{ ret; }}\n")
    };
    let texts: Vec<String> = (0..TEXTS).map(text).collect();
    let program = texts.join("\0 other bytes ");
    let start = Watch::start();
    let search = Search::new(program.as_bytes(), texts.iter().map(String::len));
    let found: usize = texts.iter().map(|text| search.images(text.len()).len()).sum();
    let taken = start.taken();
    assert_eq!(found, TEXTS);
    assert!(taken < Duration::from_secs(20), "{taken:?}");
}

#[test]
fn texts_of_unknown_length_are_found() {
    let other = format!("// other\n{}", PTX.replace("one", "two"));
    let found = |program: &str| -> Vec<(usize, String)> {
        let texts = texts(program.as_bytes()).into_iter();
        texts.map(|(at, text)| (at, String::from_utf8(text.to_vec()).unwrap())).collect()
    };
    let whole = |text: &str| text.trim_end().to_owned();
    // Directly after each other, as Rust lays out included files; with zeros in between, as C does; and
    // followed by braces.
    for between in ["", "\0", "\0\0 {} \0", "no PTX {}", "}"] {
        let program = format!("begin\0{PTX}{between}{other}{between}");
        let expected = [(6, whole(PTX)), (6 + PTX.len() + between.len(), whole(&other))];
        assert_eq!(found(&program), expected, "{between:?}");
    }
    let none = PTX.replace(".entry one()", ".func one()");
    assert_eq!(found(&none), [], "it has no kernels");
    assert_eq!(found(&PTX.replace(".target sm_75", "")), []);
}

#[test]
fn texts_in_fatbins_are_no_texts() {
    let text = PTX.as_bytes();
    let part = Part { kind: Kind::Ptx, sm: 75, flags: 0, bytes: text };
    let fatbin = fatbin::write(&[part]);
    assert!(fatbin.windows(text.len()).any(|window| window == text), "it is not packed");
    assert!(texts(&fatbin).is_empty());
    let both = [&fatbin[..], text].concat();
    assert_eq!(texts(&both), [(fatbin.len(), PTX.trim_end().as_bytes())]);
    assert_eq!(Search::new(&both, [text.len()]).bytes(text.len()), [text]);
    assert_eq!(Search::new(&both, [fatbin.len()]).bytes(fatbin.len()), [fatbin]);
}

/// Each golden image that is a text is found whole among all others.
#[test]
fn every_text_is_found_among_all_images() {
    let images = crate::common::images();
    let is_text = |bytes: &&[u8]| !fatbin::is_fatbin(bytes) && !bytes.starts_with(b"\x7fELF");
    let all = images.iter().flat_map(|(_, bytes)| bytes).copied().collect::<Vec<u8>>();
    let found: Vec<_> = texts(&all).into_iter().map(|(_, text)| text).collect();
    for (name, bytes) in images.iter().filter(|(_, bytes)| is_text(&&bytes[..])) {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let text = bytes[..end].trim_ascii();
        assert!(found.contains(&text), "{name}");
    }
}
