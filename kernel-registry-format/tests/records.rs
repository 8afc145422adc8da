//! Tests that the decoder reads what the encoder writes, at compile time and at run time, and survives any
//! other bytes.

use kernel_registry_format::{
    Encoded, HEADER_LEN, ImageRecord, KernelRecord, LibraryRecord, Needs, Param, Params, Pass, Problem,
    Record, Records, SliceLength, StackFrames, encode, encode_library, encoded_library_len, fixed_fields,
    write_kernel,
};

const FULL: KernelRecord<'static> = KernelRecord {
    path: "kernels::blas1::saxpy",
    symbol: "_Z5saxpyjfPKfPf",
    package: "kernels",
    version: "0.1.0",
    file: "kernels/src/blas1.rs",
    line: 12,
    column: 15,
    summary: "y = a*x + y",
    params: Params::new(&[
        Param::new("n", "u32", Pass::Value, 4, 4),
        Param::new("x", "&[f32]", Pass::Slice, 4, 4),
        Param::new("y", "Option<&mut [f64]>", Pass::SliceMut, 8, 8).or_null(),
        Param::new("p", "*const u8", Pass::Pointer, 1, 1),
        Param::new("q", "*mut [u16; 3]", Pass::PointerMut, 6, 2),
        Param::new("r", "&[u8]", Pass::Slice, 1, 1).with_length(SliceLength::Within),
        Param::new("s", "Option<&[u8]>", Pass::Slice, 1, 1).or_null().with_length(SliceLength::Next),
    ]),
    min_arch: Some(80),
    block: Some([256, 1, 1]),
    shared: Some(49152),
    source_names: "n, scale",
    stack: Some(16_384),
    frames: StackFrames { recursive: Some(0), launched: Some(12_288) },
    needs: {
        let mut needs = Needs::NONE;
        needs.printf = true;
        needs.heap = true;
        needs
    },
    image: Some(ImageRecord {
        file: "images/blas1.ptx",
        len: 12345,
        variants: "sm_80,compute_75",
        separable: true,
    }),
    copy: 0xfedc_ba98_7654_3210,
};
const BARE: KernelRecord<'static> = KernelRecord { path: "a::b", symbol: "b", ..KernelRecord::EMPTY };
const LIBRARY: LibraryRecord<'static> = LibraryRecord { version: "0.1.0", compiler: "rustc 1.95.0", copy: 7 };

static LIBRARY_RECORD: [u8; encoded_library_len(&LIBRARY)] = encode_library(&LIBRARY);

fn record(kernel: &KernelRecord<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_kernel(kernel, &mut bytes);
    bytes
}

/// Reads a section that holds exactly one record.
fn only(section: &[u8]) -> Result<Record<'_>, Problem> {
    let mut records = Records::new(section);
    let first = records.next().expect("one record").map_err(|malformed| malformed.problem);
    assert_eq!(records.next(), None);
    first
}

/// Applies `change` to the value of the first field with this tag.
fn with_field(record: &[u8], tag: u8, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = record.to_vec();
    let mut at = HEADER_LEN;
    while bytes[at] != tag {
        at += 5 + u32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
    }
    let length = u32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
    change(&mut bytes[at + 5..at + 5 + length]);
    bytes
}

#[test]
fn what_was_written_is_read() {
    assert_eq!(only(&record(&FULL)), Ok(Record::Kernel(FULL)));
    assert_eq!(only(&record(&BARE)), Ok(Record::Kernel(BARE)));
    assert_eq!(only(&LIBRARY_RECORD), Ok(Record::Library(LIBRARY)));
}

#[test]
fn a_kernel_that_was_read_can_be_written_again() {
    let written = record(&FULL);
    let Ok(Record::Kernel(read)) = only(&written) else { panic!() };
    assert_eq!(record(&read), written);
}

/// Encodes as the macro does: the fixed fields first, the rest with `encode`.
#[test]
fn what_was_written_at_compile_time_is_read() {
    /// The length of the fixed fields. In real code the macro computes it.
    const FIXED: usize = 440;
    const PATH: &str = FULL.path;
    let mut fixed = Vec::new();
    fixed_fields(&FULL, &mut fixed);
    assert_eq!(fixed.len(), FIXED);
    let fixed: &[u8; FIXED] = fixed.as_slice().try_into().unwrap();
    let layouts = [[4, 4], [4, 4], [8, 8], [1, 1], [6, 2], [1, 1], [1, 1]];
    let encoded: Encoded<FIXED, { PATH.len() }, 7> = encode(
        fixed,
        PATH,
        FULL.block.unwrap(),
        FULL.shared.unwrap(),
        FULL.stack.unwrap(),
        FULL.copy,
        layouts,
    );
    let bytes: Vec<u8> = encoded.bytes().collect();
    assert_eq!(bytes.len(), size_of_val(&encoded));
    assert_eq!(only(&bytes), Ok(Record::Kernel(FULL)));
}

/// Simulates a version without nullable parameters and slice lengths, which skips their fields, by giving
/// them unknown tags.
#[test]
fn an_older_reader_skips_the_fields_for_nullable_parameters_and_lengths() {
    let mut bytes = record(&FULL);
    let field = [4, 0, 0, 0, 0];
    let at = bytes.windows(5).position(|window| window == field).expect("a parameter may be null");
    bytes[at] = 200;
    let length = [5, 1, 0, 0, 0, 2];
    let at = bytes.windows(6).position(|window| window == length).expect("the kernel takes a length");
    bytes[at] = 201;
    let Ok(Record::Kernel(read)) = only(&bytes) else { panic!("it is a kernel") };
    let (read, full): (Vec<_>, Vec<_>) = (read.params.iter().collect(), FULL.params.iter().collect());
    assert!(full[2].nullable && !read[2].nullable);
    assert_eq!(read[2].or_null(), full[2]);
    assert_eq!((read[5].length, read[5].size), (None, 8));
    assert_eq!((full[5].length, full[5].size), (Some(SliceLength::Within), 16));
    assert_eq!((&read[3..5], &read[6..]), (&full[3..5], &full[6..]));
}

#[test]
fn the_name_of_an_instance_has_its_arguments() {
    let name = |path| KernelRecord { path, ..KernelRecord::EMPTY }.name();
    assert_eq!(name("kernels::blas1::saxpy"), "saxpy");
    assert_eq!(name("saxpy"), "saxpy");
    assert_eq!(name("kernels::reduce::<f32, 256>"), "reduce::<f32, 256>");
    assert_eq!(name("kernels::reduce::<half::f16, { a::B }>"), "reduce::<half::f16, { a::B }>");
}

#[test]
fn records_are_read_in_any_order_and_with_padding() {
    let mut section = vec![0; 7];
    for (record, padding) in [(&record(&BARE)[..], 1), (&LIBRARY_RECORD, 0), (&record(&FULL), 33)] {
        section.extend_from_slice(record);
        section.resize(section.len() + padding, 0);
    }
    let records: Result<Vec<_>, _> = Records::new(&section).collect();
    assert_eq!(records.unwrap(), [Record::Kernel(BARE), Record::Library(LIBRARY), Record::Kernel(FULL)]);
}

#[test]
fn an_empty_section_has_no_records() {
    assert_eq!(Records::new(&[]).next(), None);
    assert_eq!(Records::new(&[0; 64]).next(), None);
}

#[test]
fn every_truncation_is_an_error() {
    let step = if cfg!(miri) { 29 } else { 1 };
    for length in (1..record(&FULL).len()).step_by(step) {
        let error = only(&record(&FULL)[..length]).unwrap_err();
        assert_eq!(error, Problem::Truncated, "{length} bytes");
    }
}

#[test]
fn every_flipped_byte_is_survived() {
    // Miri is slow, so it flips only a sample of the bytes.
    let step = if cfg!(miri) { 29 } else { 1 };
    for at in (0..record(&FULL).len()).step_by(step) {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = record(&FULL);
            bytes[at] ^= flip;
            for record in Records::new(&bytes).flatten() {
                if let Record::Kernel(kernel) = record {
                    let _ = (kernel.signature().to_string(), kernel.params.len());
                }
            }
        }
    }
}

#[test]
fn a_newer_record_is_skipped() {
    let mut newer = record(&FULL);
    newer[8] = 9;
    let mut section = newer.clone();
    section.extend_from_slice(&record(&BARE));
    let records: Result<Vec<_>, _> = Records::new(&section).collect();
    assert_eq!(records.unwrap(), [Record::Newer { version: 9 }, Record::Kernel(BARE)]);
}

#[test]
fn an_unknown_field_is_skipped() {
    let mut bytes = record(&BARE);
    bytes.extend_from_slice(&[200, 3, 0, 0, 0, 1, 2, 3]);
    let length = (bytes.len() - HEADER_LEN) as u32;
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    assert_eq!(only(&bytes), Ok(Record::Kernel(BARE)));
}

#[test]
fn each_problem_has_its_own_error() {
    let payload = |record: &[u8], extra: &[u8]| {
        let mut bytes = [record, extra].concat();
        let length = (bytes.len() - HEADER_LEN) as u32;
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        only(&bytes).unwrap_err()
    };
    assert_eq!(only(b"what is this doing here").unwrap_err(), Problem::Magic);
    assert_eq!(payload(&record(&BARE), &[1, 9, 0, 0, 0, 1]), Problem::FieldTruncated);
    assert_eq!(payload(&record(&BARE), &[1, 1, 0, 0, 0, b'x']), Problem::FieldRepeated);
    assert_eq!(payload(&record(&BARE), &[9, 1, 0, 0, 0, 8]), Problem::FieldSize);
    assert_eq!(payload(&record(&BARE), &[10, 1, 0, 0, 0, b'x']), Problem::FieldMissing);
    assert_eq!(payload(&record(&BARE)[..HEADER_LEN], &[]), Problem::FieldMissing);
    assert_eq!(only(&with_field(&record(&BARE), 1, |path| path[0] = 0xff)).unwrap_err(), Problem::Text);
    let wrong_pass = with_field(&record(&FULL), 8, |param| {
        let at = param.windows(5).position(|field| field == [3, 1, 0, 0, 0]).unwrap();
        param[at + 5] = 77;
    });
    assert_eq!(only(&wrong_pass).unwrap_err(), Problem::Pass);
}

#[test]
fn an_error_names_the_offset_and_the_problem() {
    let section = [&[0; 5][..], b"garbage"].concat();
    let error = Records::new(&section).next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "record at byte 5: no record begins here");
}

#[test]
fn section_names_fit_their_formats() {
    use kernel_registry_format::section;
    let identifier = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    assert!(identifier(section::ELF) && section::ELF.starts_with(section::ELF_PREFIX));
    assert!(section::MACH_O_SECTION.len() <= 16);
    assert!(section::MACH_O.ends_with(section::MACH_O_SECTION));
    assert!(section::PE_SECTION.len() <= 8 && section::PE.starts_with(section::PE_SECTION));
    assert_eq!(section::version("kernel_registry_v2"), Some(2));
    assert_eq!(section::version("kernel_registry_vx"), None);
}
