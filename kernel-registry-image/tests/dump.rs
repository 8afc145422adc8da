//! Tests core dumps of GPUs. Those in `dumps` are of `tests/dumps/spins.cu` and `spins.py`, on an H200 with driver
//! 580.159.04, without what `tests/dumps/strip.py` removes.

#![cfg(feature = "dump")]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use kernel_registry_image::Error;
use kernel_registry_image::dump::{self, Dump, Frame};

fn bytes(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps").join(name).with_extension("zst");
    let packed = fs::read(path).expect("a dump");
    let mut unpacked = Vec::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&*packed).expect("a header");
    decoder.read_to_end(&mut unpacked).expect("a whole file");
    unpacked
}

/// Returns the places as text: the number of threads, and functions without their parameters.
fn places(dump: &Dump) -> Vec<String> {
    let short = |frame: &Frame| {
        let text = frame.to_string();
        let its = text.split('(').next().unwrap_or_default();
        let offset = text.rfind("+0x").map_or("", |at| &text[at..]);
        format!("{its}{offset}{}", if frame.is_inlined { ", inlined" } else { "" })
    };
    let grids = dump.grids.iter().flat_map(|grid| &grid.places);
    grids
        .map(|place| {
            let frames: Vec<_> = place.frames.iter().map(short).collect();
            format!("{} at {}", place.threads, frames.join(" < "))
        })
        .collect()
}

#[test]
fn threads_are_where_cuda_gdb_has_them() {
    let inside = "spins.cu:26 wait_for, inlined < spins.cu:35 wait_until_set < spins.cu:41 waits_for_flag";
    for (name, expected) in [
        (
            "flag",
            [
                &*format!("128 at {inside}"),
                "128 at spins.cu:26 wait_for, inlined < spins.cu:43 waits_for_flag",
            ]
            .as_slice(),
        ),
        (
            "flag-nolines",
            &["128 at wait_until_set+0x60 < waits_for_flag+0x1a0", "128 at waits_for_flag+0xf0"],
        ),
        (
            "flag-debug",
            &[
                "128 at spins.cu:26 wait_until_set < spins.cu:41 waits_for_flag",
                "128 at spins.cu:26 waits_for_flag",
            ],
        ),
        (
            "barrier",
            &[
                "4092 at spins.cu:56 barrier_of_blocks",
                "129 at spins.cu:52 barrier_of_blocks",
                "3 at spins.cu:20 now, inlined < spins.cu:49 barrier_of_blocks",
            ],
        ),
        ("computes", &["416 at spins.cu:65 computes", "96 at spins.cu:66 computes"]),
        ("triton", &["512 at spins.py:20 wait_for"]),
    ] {
        let dump = dump::read(&bytes(name)).expect(name);
        assert_eq!(places(&dump), expected, "{name}");
        assert!(dump.grids.iter().all(|grid| grid.faults.is_empty()), "{name}");
        let [device] = &dump.devices[..] else { panic!("{name}: {:?}", dump.devices) };
        assert_eq!((&*device.name, device.capability, device.multiprocessors), ("NVIDIA H200", (9, 0), 132));
        assert_eq!(device.pci, (0, 6), "{name}");
    }
}

#[test]
fn blocks_without_room_are_not_resident() {
    let dump = dump::read(&bytes("barrier")).expect("a dump");
    let [grid] = &dump.grids[..] else { panic!("{:?}", dump.grids) };
    assert_eq!((grid.resident, grid.started, grid.blocks()), (132, 132, 140));
    assert_eq!((grid.grid, grid.block), ([140, 1, 1], [32, 1, 1]));
    assert_eq!(grid.kernel, "_Z17barrier_of_blocksPjS_y");
}

#[test]
fn faults_have_a_line_and_a_thread() {
    for (name, fault, line) in [
        ("misaligned", "an access to a misaligned address", "spins.cu:78 writes_misaligned(char*)"),
        ("assert", "an assert that failed", "spins.cu:81 asserts(unsigned int)"),
        ("trap", "a trap", "spins.cu:85 traps(unsigned int)"),
    ] {
        let dump = dump::read(&bytes(name)).expect(name);
        let faults: Vec<_> = dump.grids.iter().flat_map(|grid| &grid.faults).collect();
        let said: Vec<_> = faults.iter().map(|its| format!("{} by {}", its.exception, its.thread)).collect();
        let of = |block: u32| format!("{fault} by thread (7,0,0) of block ({block},0,0)");
        assert_eq!(said, [of(0), of(1)], "{name}");
        assert!(faults.iter().all(|its| its.frames[0].to_string() == line), "{name}: {faults:?}");
    }
}

/// After an illegal address all threads had ended, and multiprocessors remember where it was.
#[test]
fn a_fault_without_threads_has_a_line() {
    let dump = dump::read(&bytes("illegal")).expect("a dump");
    assert!(dump.grids.is_empty(), "{:?}", dump.grids);
    let [fault] = &dump.lost[..] else { panic!("{:?}", dump.lost) };
    assert_eq!(
        (fault.device, fault.multiprocessors, fault.exception.to_string()),
        (0, 4, "an access to an illegal address".to_owned())
    );
    assert_eq!(fault.frames[0].to_string(), "spins.py:33 writes_beyond");
}

/// Sections of a dump with their headers.
struct Sections(Vec<u8>);

impl Sections {
    fn number(&self, at: usize) -> usize {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("8 bytes")) as usize
    }

    /// Returns the offsets of the headers of this type.
    fn headers(&self, kind: u32) -> Vec<usize> {
        let (table, count) = (self.number(40), u16::from_le_bytes([self.0[60], self.0[61]]) as usize);
        let is_kind = |at: &usize| self.0[at + 4..at + 8] == (0x8000_0000 + kind).to_le_bytes();
        (0..count).map(|index| table + index * 64).filter(is_kind).collect()
    }

    /// Makes the rows of a type shorter, as in older versions of the driver.
    fn shorten(&mut self, kind: u32, size: usize) {
        for header in self.headers(kind) {
            let (data, length, row) =
                (self.number(header + 24), self.number(header + 32), self.number(header + 56));
            let count = length / row;
            for index in 0..count {
                self.0.copy_within(data + index * row..data + index * row + size, data + index * size);
            }
            self.0[header + 32..header + 40].copy_from_slice(&((count * size) as u64).to_le_bytes());
            self.0[header + 56..header + 64].copy_from_slice(&(size as u64).to_le_bytes());
        }
    }
}

/// The sizes are those of NVIDIA's header for releases 525 to 570.
#[test]
fn dumps_of_older_drivers_are_read() {
    for sizes in [[80, 120, 40, 48, 48], [80, 104, 40, 40, 48], [80, 104, 24, 32, 48]] {
        for name in ["flag", "barrier"] {
            let mut older = Sections(bytes(name));
            for (kind, size) in [9, 12, 13, 14, 15].into_iter().zip(sizes) {
                older.shorten(kind, size);
            }
            let (older, newer) = (dump::read(&older.0).expect(name), dump::read(&bytes(name)).expect(name));
            assert_eq!(older, newer, "{name} {sizes:?}");
        }
    }
}

/// A warp is broken as a whole, and only its active lanes are at the trap.
#[test]
fn a_trap_is_that_of_the_active_lanes() {
    let mut sections = Sections(bytes("flag"));
    let warps = sections.headers(14)[0];
    let warp = sections.number(warps + 24);
    sections.0[warp + 16..warp + 20].copy_from_slice(&0x80_u32.to_le_bytes());
    sections.0[warp + 20..warp + 24].copy_from_slice(&1_u32.to_le_bytes());
    let dump = dump::read(&sections.0).expect("a dump");
    let faults: Vec<_> = dump.grids[0].faults.iter().map(|fault| fault.thread.thread).collect();
    assert_eq!(faults, [[7, 0, 0]]);
}

/// Reads bytes, which must end soon and not panic.
fn survive(what: &str, bytes: &[u8]) {
    let start = Instant::now();
    match dump::read(bytes) {
        Ok(dump) => {
            assert!(dump.grids.iter().flat_map(|grid| &grid.places).all(|place| !place.frames.is_empty()))
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{what}");
}

#[test]
fn damaged_dumps_are_refused_or_read() {
    // The debug build takes half a millisecond for each.
    let (trap, flag) = if cfg!(debug_assertions) { (11, 101) } else { (1, 3) };
    for (name, step) in [("trap", trap), ("flag", flag)] {
        let whole = bytes(name);
        for end in (0..whole.len()).step_by(step * 5) {
            survive(&format!("{name} up to {end}"), &whole[..end]);
        }
        let mut damaged = whole.clone();
        for at in (0..whole.len()).step_by(step) {
            for value in [0, 0x7f, 0xff] {
                damaged[at] = value;
                survive(&format!("{name} with {value} at {at}"), &damaged);
            }
            damaged[at] = whole[at];
        }
    }
}

#[test]
fn other_files_are_refused_in_words() {
    assert_eq!(dump::read(b""), Err(Error::NotADump));
    assert_eq!(dump::read(&[0; 4096]), Err(Error::NotADump));
    let program = fs::read(std::env::current_exe().expect("a path")).expect("a program");
    assert!(matches!(dump::read(&program), Err(Error::OtherElf { .. })));
    let whole = bytes("trap");
    let error = dump::read(&whole[..whole.len() - 1]).expect_err("it is cut off");
    assert!(error.to_string().contains("cut off: the core dump should have"), "{error}");
}

/// More than 65,280 sections are usual: each lane with a call has one.
#[test]
fn a_large_dump_is_read_in_a_second() {
    let (dump, lanes) = many_lanes(40_000);
    assert!(dump.len() > 60 << 20, "{}", dump.len());
    let start = Instant::now();
    let read = dump::read(&dump).expect("a dump");
    let took = start.elapsed();
    assert_eq!(read.grids[0].places.iter().map(|place| place.threads).sum::<u64>(), lanes);
    assert!(took < Duration::from_secs(if cfg!(debug_assertions) { 30 } else { 1 }), "{took:?}");
}

/// Returns the dump `flag` with a table of lanes repeated, and the number of lanes.
fn many_lanes(times: u64) -> (Vec<u8>, u64) {
    const SECTION: usize = 64;
    let whole = bytes("flag");
    let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("8 bytes"));
    let (table, count) = (number(40) as usize, u16::from_le_bytes([whole[60], whole[61]]) as usize);
    let mut body = whole[..table].to_vec();
    let mut headers = whole[table..table + count * SECTION].to_vec();
    let kind = |at: usize| u32::from_le_bytes(whole[at + 4..at + 8].try_into().expect("4 bytes"));
    let lanes = (0..count).map(|index| table + index * SECTION).find(|at| kind(*at) == 0x8000_000f);
    let lanes = lanes.expect("a table of lanes");
    let (begin, size) = (number(lanes + 24) as usize, number(lanes + 32) as usize);
    for _ in 0..times {
        let mut header = whole[lanes..lanes + SECTION].to_vec();
        header[24..32].copy_from_slice(&(body.len() as u64).to_le_bytes());
        body.extend_from_slice(&whole[begin..begin + size]);
        headers.extend_from_slice(&header);
    }
    let all = (headers.len() / SECTION) as u64;
    // The number of sections is in the first section's size if there are many.
    headers[32..40].copy_from_slice(&all.to_le_bytes());
    body[60..62].copy_from_slice(&0_u16.to_le_bytes());
    let end = body.len() as u64;
    body[40..48].copy_from_slice(&end.to_le_bytes());
    body.extend_from_slice(&headers);
    let lanes = 256 + times * (size / 56) as u64;
    (body, lanes)
}
