//! Tests images that are cut off, damaged or malicious. Reading them must end soon and not panic.

use std::thread;
use std::time::Duration;

use crate::common::{image, images};
use crate::cubin::Cubin;
use crate::watch::Watch;
use kernel_registry_cuda::fatbin::{Kind, Part, write};
use kernel_registry_format::is_control;
use kernel_registry_image::embedded::Search;
use kernel_registry_image::source::CSignature;
use kernel_registry_image::{Error, MAX_PLAIN_SIZE, Signature, read};

/// Reads bytes, which must end soon and not panic. The result doesn't matter: a damaged image may still be
/// readable.
fn survive(what: &str, bytes: &[u8]) {
    let start = Watch::start();
    if let Err(error) = read(bytes) {
        assert!(!error.to_string().is_empty());
    }
    let taken = start.taken();
    assert!(taken < Duration::from_secs(5), "{what}: {taken:?}");
}

/// Cuts and damages each image at about this many offsets.
fn damage_all(count: usize) {
    thread::scope(|scope| {
        for (name, bytes) in images() {
            scope.spawn(move || damage(&name, &bytes, count));
        }
    });
}

fn damage(name: &str, bytes: &[u8], count: usize) {
    let step = (bytes.len() / count).max(1);
    for end in (0..bytes.len()).step_by(step) {
        survive(&format!("{name} up to {end}"), &bytes[..end]);
    }
    let mut damaged = bytes.to_vec();
    for (count, at) in (0..bytes.len()).step_by(step).enumerate() {
        let flip = [0xff, 0x01, 0x80, 0x20, 0x10][count % 5];
        damaged[at] ^= flip;
        survive(&format!("{name} with {flip:#x} flipped at {at}"), &damaged);
        Search::new(&damaged, [bytes.len()]).images(bytes.len());
        damaged[at] = bytes[at];
    }
    // Headers decide most, so each of their bytes, or bits, is flipped.
    for at in 0..bytes.len().min(64) {
        for bit in (0..8).filter(|bit| count > 100 || *bit == at % 8) {
            damaged[at] ^= 1 << bit;
            survive(&format!("{name} with bit {bit} flipped at {at}"), &damaged);
            damaged[at] = bytes[at];
        }
    }
}

#[test]
fn damaged_images() {
    damage_all(if cfg!(debug_assertions) { 50 } else { 500 });
}

/// Run by `cargo test --release -p kernel-registry-image -- --ignored`.
#[test]
#[ignore = "takes minutes; `.ci/run` has it, with optimisations"]
fn images_damaged_at_every_byte() {
    damage_all(usize::MAX);
}

#[test]
fn a_container_that_is_cut_off_is_never_read() {
    for name in ["reduce.default.fatbin", "reduce.size.fatbin", "reduce.speed.fatbin", "spin.family.fatbin"] {
        let bytes = image(name);
        for end in 16..bytes.len() {
            assert!(matches!(read(&bytes[..end]), Err(Error::Truncated { .. })), "{name} up to {end}");
        }
    }
}

/// The tables of a cubin come after its sections, and the driver reads all of these tables.
#[test]
fn a_cubin_that_is_cut_off_is_never_read() {
    let cubins = images().into_iter().filter(|(_, bytes)| bytes.starts_with(b"\x7fELF"));
    for (name, bytes) in cubins.filter(|(_, bytes)| bytes.len() < 30_000) {
        for end in 4..bytes.len() {
            let error = read(&bytes[..end]).expect_err(&name);
            let Error::Truncated { needed, available, .. } = error else {
                panic!("{name} up to {end}: {error}")
            };
            assert_eq!(available, end as u64);
            // The header has the end of the tables, which end the file.
            assert!(needed == if end < 64 { 64 } else { bytes.len() as u64 }, "{name} up to {end}: {error}");
        }
    }
}

#[test]
fn segments_and_sections_beyond_the_end_are_refused() {
    let cubin = image("spin.sm_90.cubin");
    let word = |at: usize| u64::from_le_bytes(cubin[at..at + 8].try_into().unwrap()) as usize;
    let count = |at: usize| usize::from(u16::from_le_bytes([cubin[at], cubin[at + 1]]));
    let (segments, sections) = (word(32), word(40));
    // For each header, the positions of the fields with the offset and the size in the file.
    let offsets = |table: usize, count: usize, header: usize, offset: usize, size: usize| {
        let headers = (0..count).map(move |index| table + index * header);
        headers.map(move |header| (header + offset, header + size)).filter(|(_, size)| word(*size) > 0)
    };
    let segments = offsets(segments, count(56), 56, 8, 32);
    // The first section is empty, and a section of type 8 has no bytes in the file, so their offsets don't
    // matter.
    let sections = offsets(sections, count(60), 64, 24, 32).filter(|(at, _)| cubin[at - 20] != 8);
    let mut tried = 0;
    for (offset, size) in segments.chain(sections) {
        for (at, value) in [(offset, cubin.len() as u64), (size, cubin.len() as u64 + 1), (offset, u64::MAX)]
        {
            let mut lying = cubin.clone();
            lying[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let error = read(&lying).expect_err("it is beyond the end");
            assert!(matches!(error, Error::Truncated { .. } | Error::Malformed { .. }), "{error}");
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}

/// An unreadable part is skipped if others can be read, but not if it's cut off, because the driver may
/// choose it.
#[test]
fn a_fatbin_with_a_cubin_that_is_cut_off_is_refused() {
    let (cubin, other) = (image("spin.sm_90.cubin"), image("spin.sm_80.cubin"));
    let fatbin = |cubin: &[u8]| {
        let part = |sm, bytes| Part { kind: Kind::Cubin, sm, flags: 0, bytes };
        write(&[part(80, &other), part(90, cubin)])
    };
    assert_eq!(read(&fatbin(&cubin)).unwrap().variants.len(), 2);
    for end in [cubin.len() - 8, cubin.len() / 2, 64, 20] {
        let error = read(&fatbin(&cubin[..end])).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "{error}");
    }
}

/// Searches for images of several lengths, which must end soon.
fn search(what: &str, bytes: &[u8], lengths: &[usize]) {
    let start = Watch::start();
    let search = Search::new(bytes, lengths.iter().copied());
    for length in lengths {
        search.images(*length);
    }
    let taken = start.taken();
    assert!(taken < Duration::from_secs(5), "{what}: {taken:?}");
}

#[test]
fn bytes_in_which_an_image_could_begin_anywhere() {
    const SIZE: usize = if cfg!(debug_assertions) { 128 * 1024 } else { 1024 * 1024 };
    for part in [
        ".version }",
        ".version 8.0 .target sm_90 .entry k(){} ",
        ".version 8.0 .target sm_90 .entry k(){ ",
        "// .version 8.0 .target sm_90 } ",
        "/* .version 8.0 .target sm_90 .entry k(){} */",
        "\" .version 8.0 .target sm_90 .entry k(){} ",
        "{ .version 8.0 \" } /* \n",
        ".version 8.0 .target sm_90 .entry k(){} \0",
    ] {
        let text = part.repeat(SIZE / part.len());
        search(part, text.as_bytes(), &[part.len(), 10 * part.len(), SIZE / 2]);
        let spaces = format!("{}{text}", " ".repeat(SIZE));
        search(part, spaces.as_bytes(), &[SIZE]);
    }
    // Each container is inside the previous one, or directly after it.
    let container = |payload: usize| {
        let mut header = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
        header.extend((payload as u64).to_le_bytes());
        header
    };
    let nested = (0..SIZE / 16).flat_map(|index| container(SIZE - 16 * (index + 1)));
    search("nested containers", &nested.collect::<Vec<u8>>(), &[16, SIZE / 2, SIZE]);
    let empty = (0..SIZE / 16).flat_map(|_| container(0));
    search("empty containers", &empty.collect::<Vec<u8>>(), &[16, 160, SIZE / 2]);
    // The section headers of each cubin lie in the cubins after it.
    let mut cubin = image("spin.sm_90.cubin")[..64].to_vec();
    cubin[40..48].copy_from_slice(&64u64.to_le_bytes());
    cubin[60..62].copy_from_slice(&0x1fff_u16.to_le_bytes());
    search("cubins in each other", &cubin.repeat(SIZE / 64), &[64, SIZE / 2]);
}

/// Returns a fatbin with one PTX entry.
fn fatbin(flags: u64, plain_size: u64, payload: &[u8]) -> Vec<u8> {
    let mut entry = vec![0; 64];
    entry[0] = 1;
    entry[4] = 64;
    entry[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    entry[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    entry[40..48].copy_from_slice(&flags.to_le_bytes());
    entry[56..64].copy_from_slice(&plain_size.to_le_bytes());
    let mut bytes = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    bytes.extend((entry.len() as u64 + payload.len() as u64).to_le_bytes());
    bytes.extend(entry);
    bytes.extend(payload);
    bytes
}

const ZSTD: u64 = 0x8000;
const LZ4: u64 = 0x2000;

/// Returns a zstd frame that repeats a byte: four bytes make 128 KiB.
fn zstd_bomb(blocks: u32) -> Vec<u8> {
    // Magic, a descriptor without content size, a window of 1 MiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
    for block in 0..blocks {
        let header = (128 * 1024) << 3 | 1 << 1 | u32::from(block + 1 == blocks);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(b' ');
    }
    frame
}

#[test]
fn bombs_do_not_go_off() {
    // 128 MiB from 4 KiB, honestly and dishonestly declared.
    let bomb = zstd_bomb(1024);
    assert!(matches!(read(&fatbin(ZSTD, 128 << 20, &bomb)), Err(Error::TooLarge { .. })));
    assert!(matches!(read(&fatbin(ZSTD, 1 << 16, &bomb)), Err(Error::Malformed { .. })));
    // A single block unpacks to more than 255 times its size, too.
    let small = zstd_bomb(1);
    assert!(matches!(read(&fatbin(ZSTD, 128 * 1024, &small)), Err(Error::TooLarge { .. })));

    for size in [MAX_PLAIN_SIZE + 1, u64::MAX] {
        for packing in [ZSTD, LZ4] {
            assert!(matches!(read(&fatbin(packing, size, &bomb)), Err(Error::TooLarge { .. })));
        }
    }
    // A run of LZ4: each of its bytes claims 255 more.
    let mut run = vec![0x1f, b' ', 1, 0];
    run.extend([0xff; 60_000]);
    for size in [1, 60_000 * 255, 60_000 * 254] {
        assert!(read(&fatbin(LZ4, size, &run)).is_err());
    }
}

#[test]
fn a_window_that_is_too_large_is_refused() {
    let mut frame = zstd_bomb(1);
    frame[5] = 0xff;
    frame.resize(4096, 0);
    assert!(matches!(read(&fatbin(ZSTD, 128 * 1024, &frame)), Err(Error::Malformed { .. })));
}

#[test]
fn unknown_packings_have_a_name() {
    let error = read(&fatbin(0x1000, 100, b"packed")).unwrap_err();
    assert_eq!(error, Error::UnknownCompression { flags: 0x1000 });
    assert!(error.to_string().contains("-compress-mode=none"));
    let error = read(&fatbin(ZSTD | LZ4, 100, b"packed")).unwrap_err();
    assert_eq!(error, Error::UnknownCompression { flags: ZSTD | LZ4 });
}

#[test]
fn lengths_that_lie() {
    for name in ["reduce.none.fatbin", "reduce.size.fatbin"] {
        let bytes = image(name);
        // The container's payload, the first entry's header, payload and packed size.
        for (at, length) in [(8, 8), (16 + 4, 4), (16 + 8, 8), (16 + 16, 4)] {
            let mut lying = bytes.clone();
            lying[at..at + length].fill(0xff);
            // An unreadable entry must not hide the others.
            let is_noticed = read(&lying).map_or(true, |image| image.unread.len() == 1);
            assert!(is_noticed, "{name} at {at}");
        }
    }
}

#[test]
fn two_kernels_of_one_name_are_refused() {
    let entry = ".visible .entry twice() { ret; }";
    let error = read(format!(".version 8.0\n.target sm_90\n{entry}\n{entry}").as_bytes()).unwrap_err();
    assert_eq!(error, Error::Duplicate { place: "line 4".to_owned(), symbol: "twice".to_owned() });
    assert_eq!(
        error.to_string(),
        "malformed image: line 4: there are two kernels `twice`, and only one could be launched; \
         rename one of them in its source"
    );
    // A declaration isn't a second kernel, and modules are independent.
    let module = format!(".version 8.0 .target sm_90 .entry twice; {entry}");
    assert_eq!(read(format!("{module}{module}").as_bytes()).unwrap().variants.len(), 2);

    let mut cubin = Cubin::new(8);
    let name = cubin.string("twice");
    cubin.kernel(name);
    cubin.kernel(name);
    let error = read(&cubin.write()).unwrap_err();
    let place = "the symbol table".to_owned();
    assert_eq!(error, Error::Duplicate { place, symbol: "twice".to_owned() });
}

/// A line break in a name would end up in the code that is generated for the kernel.
#[test]
fn names_with_control_characters_are_refused() {
    let cubin = |name: &str| {
        let mut cubin = Cubin::new(8);
        let name = cubin.string(name);
        cubin.kernel(name);
        cubin.write()
    };
    let error = read(&cubin("k\n#[cfg(all())] mod evil;")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the symbol table: the name \"k\\n#[cfg(all())] mod evil;\" has control characters, which no compiler writes: do not \
         use this image before you know who made it"
    );
    let controls = (0..0x20)
        .chain(0x7f..0xa0)
        .chain(0x2028..0x202f)
        .chain([0xad, 0x61c, 0x200f, 0x2069, 0xfeff, 0xe0041]);
    for c in controls.filter(|c| *c != 0).map(|c| char::from_u32(c).unwrap()) {
        for name in [format!("{c}k"), format!("a{c}b"), format!("_Z1k{c}"), format!("_Z3a{c}bi")] {
            let is_refused = matches!(read(&cubin(&name)), Err(Error::ControlCharacter { .. }));
            assert!(is_refused, "{name:?}");
            assert_eq!(Signature::parse(&name), None, "{name:?}");
            // In PTX, the name ends before the character, or is empty.
            let ptx = format!(".version 8.0 .target sm_90 .entry {name}() {{ ret; }}");
            for entry in read(ptx.as_bytes()).iter().flat_map(|image| &image.variants[0].entries) {
                assert!(!entry.symbol.contains(c), "{name:?}");
            }
            assert_eq!(CSignature::parse(&format!("{name}(int)")), None, "{name:?}");
            assert_eq!(CSignature::parse(&format!("k({name})")), None, "{name:?}");
        }
    }
    for name in ["k", "_Z5naïve名", "Kern🦀l"] {
        assert_eq!(read(&cubin(name)).unwrap().variants[0].entries[0].symbol, name);
    }
}

/// Errors contain section names, which the image chooses.
#[test]
fn errors_have_no_control_characters() {
    let mut cubin = Cubin::new(8);
    let name = cubin.string(".nv.info.k\u{1b}[31m");
    let data = cubin.data(&[9, 9, 9, 9]);
    cubin.section(name, data);
    let name = cubin.string("k");
    cubin.kernel(name);
    if let Err(error) = read(&cubin.write()) {
        assert!(!error.to_string().contains(is_control), "{error}");
    }
}

#[test]
fn names_that_explode() {
    // Each part refers to the previous one twice.
    let mut name = String::from("_Z1fI1aE");
    for _ in 0..40 {
        name.push_str("IS_S_E");
    }
    survive("a name", format!(".version 8.0 .target sm_90 .entry {name} {{}}").as_bytes());
    for part in ["I", "P", "N", "X", "DpT_", "S_", "1aI", "FvS_", "L_Z", "T_"] {
        for count in [10, 100, 1000, 10_000] {
            let name = format!("_Z1fI{}", part.repeat(count));
            let start = Watch::start();
            let _ = Signature::parse(&name);
            assert!(start.taken() < Duration::from_secs(5), "{part} {count}");
        }
    }
    let mut doubling = String::from("_Z1fI1aIiiEE1bIS0_S0_E");
    let mut last = 1;
    while doubling.len() < 4000 {
        doubling.push_str(&format!("1cIS{last:X}_S{last:X}_E"));
        last += 1;
    }
    let start = Watch::start();
    // A long pattern for each element of a long pack.
    let name = format!("_Z1kIJ{}EEvDp15000{}IT_E", "i".repeat(10_000), "x".repeat(15_000));
    assert_eq!(Signature::parse(&name), None);
    let _ = Signature::parse(&doubling);
    assert!(start.taken() < Duration::from_secs(5));
}

#[test]
fn texts_that_never_end() {
    let head = ".version 8.0 .target sm_90 ";
    for (part, count) in [
        ("{", 1_000_000),
        ("/*", 500_000),
        ("\"", 500_001),
        (".entry k(", 100_000),
        (".entry k@(.param .u8 x) {} ", 50_000),
        (".func f { call f, (); } ", 50_000),
        ("call ((((", 100_000),
        (".target sm_90 ", 50_000),
        (".version 8.0 .target sm_90 ", 50_000),
        (".pragma \"x\"; ", 50_000),
        ("\u{fffd}", 300_000),
    ] {
        let parts = (0..count).map(|number| part.replace('@', &number.to_string()));
        survive(part, format!("{head}{}", parts.collect::<String>()).as_bytes());
    }
    // Calls that need lookahead, each to the end of the text.
    let calls = format!("{head}.entry k {{ {}", "call ((((((((".repeat(20_000));
    survive("calls", calls.as_bytes());
    let calls = format!("{head}.entry k {{ {}", "call (".repeat(100_000));
    survive("open calls", calls.as_bytes());
}
