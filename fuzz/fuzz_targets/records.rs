//! Fuzzes the decoders of records and of baked code: for any bytes they must end and must not panic, and a decoded record must be
//! the same after encoding and decoding.

#![no_main]

use kernel_registry_format::baked;
use kernel_registry_format::{Record, Records, write_kernel};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|section: &[u8]| {
    let mut count = 0;
    for record in Records::new(section) {
        count += 1;
        match record {
            Ok(Record::Kernel(kernel)) => {
                assert!(kernel.signature().to_string().len() <= 4 * section.len() + 2);
                let mut bytes = Vec::new();
                write_kernel(&kernel, &mut bytes);
                let again = Records::new(&bytes).next();
                assert_eq!(again, Some(Ok(Record::Kernel(kernel))));
            }
            Ok(_) => {}
            Err(malformed) => {
                assert!(malformed.offset <= section.len());
                assert!(!malformed.to_string().is_empty());
            }
        }
    }
    // Each record has at least a header, and an error ends the iteration.
    assert!(count <= section.len() / 16 + 1);

    // With its hash in place, so that the index is decoded.
    let mut file = section.to_vec();
    if let Ok(end) = baked::needed(section) {
        file.resize(file.len().max(end.min(1 << 20) as usize), 0);
    }
    file.iter_mut().skip(24).take(32).for_each(|byte| *byte = 0);
    if let Ok(index) = baked::read(&file, u64::MAX, |_| [0; 32]) {
        assert!(index.entries().all(|entry| entry.arch.len() + entry.compiler.len() <= file.len()));
    }
});
