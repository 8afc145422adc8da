//! Writes small containers that unpack to a lot.

/// Returns a container with one kernel in PTX, which takes `packed` bytes in the file and unpacks to `plain`
/// bytes.
pub fn container(kernel: &str, plain: usize, packed: usize) -> Vec<u8> {
    let mut frame = frame(kernel, plain);
    assert!(frame.len() <= packed, "{} bytes of {packed}", frame.len());
    // Bytes after a frame are not read.
    frame.resize(packed, 0);
    let mut entry = vec![0; 64];
    entry[0] = 1;
    entry[4] = 64;
    entry[8..16].copy_from_slice(&(packed as u64).to_le_bytes());
    entry[16..20].copy_from_slice(&(packed as u32).to_le_bytes());
    entry[28] = 90;
    entry[40..48].copy_from_slice(&0x8000_u64.to_le_bytes());
    entry[56..64].copy_from_slice(&(plain as u64).to_le_bytes());
    let mut bytes = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    bytes.extend((entry.len() as u64 + packed as u64).to_le_bytes());
    bytes.extend(entry);
    bytes.extend(frame);
    bytes
}

/// Returns a frame of Zstandard with PTX and then zeros: four bytes of the frame make 128 KiB of zeros.
fn frame(kernel: &str, plain: usize) -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    let text = format!(".version 8.0\n.target sm_90\n.visible .entry {kernel}() {{ ret; }}\n");
    // Magic, a descriptor without content size, a window of 1 MiB, then the raw text.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
    frame.extend(&((text.len() as u32) << 3).to_le_bytes()[..3]);
    frame.extend(text.as_bytes());
    let mut left = plain - text.len();
    while left > 0 {
        let len = left.min(BLOCK);
        left -= len;
        frame.extend(&((len as u32) << 3 | 1 << 1 | u32::from(left == 0)).to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}
