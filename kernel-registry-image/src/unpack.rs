//! Unpacks the entries of fatbins, within bounds.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

use crate::Error;

/// The most bytes that the entries of one container may unpack to together. All containers of a file may
/// unpack to as many, plus 32 for each byte of the file.
pub const MAX_PLAIN_SIZE: u64 = 256 << 20;

/// How an entry is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Lz4,
    Zstd,
}

/// The highest accepted ratio of unpacked to packed bytes. LZ4 can't exceed it.
const MAX_RATIO: u64 = 255;

/// Unpacks an entry that claims to have `plain_size` bytes, and at most `most`.
pub(crate) fn unpack(packing: Packing, packed: &[u8], plain_size: u64, most: u64) -> Result<Vec<u8>, Error> {
    let limit = (packed.len() as u64).saturating_mul(MAX_RATIO).min(most);
    if plain_size > limit {
        return Err(Error::TooLarge { size: plain_size, limit });
    }
    let plain = match packing {
        Packing::Lz4 => lz4(packed, plain_size as usize),
        Packing::Zstd => zstd(packed, plain_size),
    };
    let malformed = |problem| Error::malformed("a packed entry of a fatbin", problem);
    let plain = plain.map_err(malformed)?;
    match plain.len() as u64 == plain_size {
        true => Ok(plain),
        false => Err(malformed("it does not have the size that it claims".to_owned())),
    }
}

fn lz4(packed: &[u8], plain_size: usize) -> Result<Vec<u8>, String> {
    lz4_flex::block::decompress(packed, plain_size).map_err(|error| error.to_string())
}

fn zstd(packed: &[u8], plain_size: u64) -> Result<Vec<u8>, String> {
    // A window larger than the text is useless, but encoders have a minimum.
    const SMALLEST: u64 = 1 << 20;
    let window = plain_size.next_power_of_two().clamp(SMALLEST, MAX_PLAIN_SIZE);
    let decoder = StreamingDecoder::new_with_max_window_size(packed, window);
    let decoder = decoder.map_err(|error| error.to_string())?;
    let mut plain = Vec::new();
    // One byte more reveals that there is more than claimed.
    decoder.take(plain_size + 1).read_to_end(&mut plain).map_err(|error| error.to_string())?;
    Ok(plain)
}
