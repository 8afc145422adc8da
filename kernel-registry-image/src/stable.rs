//! Removes the parts of symbols that depend on the source's folder.

use std::borrow::Cow;

/// The texts that nvcc puts before a hash of the source's path, in the names of static functions and of
/// anonymous namespaces.
const PREFIXES: [&str; 2] = ["_INTERNAL_", "_GLOBAL__N_"];

/// The text that nvcc puts before the symbol of a kernel with internal linkage, in code that is linked later.
const STATIC: &str = "__nv_static_";

/// Returns the symbol without nvcc's hashes of its source's path, so that it is the same from every folder.
///
/// ```
/// use kernel_registry_image::stable_symbol;
///
/// let symbol = "_ZN40_GLOBAL__N__00000000_8_types_cu_34106f846hiddenEj";
/// assert_eq!(stable_symbol(symbol), "_ZN11_GLOBAL__N_6hiddenEj");
/// assert_eq!(stable_symbol("_Z5saxpyjfPKfPf"), "_Z5saxpyjfPKfPf");
/// ```
pub fn stable_symbol(symbol: &str) -> Cow<'_, str> {
    let symbol = after_file(symbol).unwrap_or(symbol);
    let (mut stable, mut copied) = (String::new(), 0);
    for (at, _) in symbol.match_indices('_') {
        let Some(prefix) = PREFIXES.into_iter().find(|prefix| symbol[at..].starts_with(prefix)) else {
            continue;
        };
        if at >= copied
            && let Some((start, end)) = hashed_name(symbol, at, prefix)
        {
            stable.push_str(&symbol[copied..start]);
            stable.push_str(&prefix.len().to_string());
            stable.push_str(prefix);
            copied = end;
        }
    }
    if copied == 0 { Cow::Borrowed(symbol) } else { Cow::Owned(stable + &symbol[copied..]) }
}

/// Returns the symbol after `__nv_static_22__ac454b6f_4_a_cu_..`. The number is the length of the part with
/// the file's name.
fn after_file(symbol: &str) -> Option<&str> {
    let (length, behind) = symbol.strip_prefix(STATIC)?.split_once('_')?;
    behind.get(length.parse().ok()?..)?.strip_prefix('_')
}

/// Returns the start and end of a name that is preceded by its length, as in
/// `33_GLOBAL__N__ac454b6f_4_a_cu_..`. The name's prefix is at `at`.
fn hashed_name(symbol: &str, at: usize, prefix: &str) -> Option<(usize, usize)> {
    let shortest = prefix.len() + hash_and_file(&symbol[at + prefix.len()..])?;
    let digits = symbol[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
    // The first digits may belong to another name: `2t1` before `33_GLOBAL`.
    (1..=digits).find_map(|digits| {
        let length: usize = symbol[at - digits..at].parse().ok()?;
        let end = at.checked_add(length)?;
        (length >= shortest && symbol.is_char_boundary(end)).then_some((at - digits, end))
    })
}

/// Returns the length of a hash and the file's name after the hash: `b33cc311_11_binbcast_cu`.
fn hash_and_file(text: &str) -> Option<usize> {
    let hash = text.trim_start_matches('_');
    let (digits, behind) = hash.split_once('_')?;
    let (length, file) = behind.split_once('_')?;
    let is_hash = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let length = length.parse().ok()?;
    let end = text.len() - file.len();
    (is_hash && file.len() >= length).then_some(end + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_paths_are_left_out() {
        for (symbol, stable) in [
            (
                "_Z5applyIXadL_ZN31_INTERNAL_ac454b6f_4_a_cu__Z1fv3incEfEEfEvPT0_",
                "_Z5applyIXadL_ZN10_INTERNAL_3incEfEEfEvPT0_",
            ),
            (
                "_ZN33_GLOBAL__N__ac454b6f_4_a_cu__Z1fv3hidEPNS_6HiddenEPf",
                "_ZN11_GLOBAL__N_3hidEPNS_6HiddenEPf",
            ),
            (
                "__nv_static_22__ac454b6f_4_a_cu__Z1fv__ZN33_GLOBAL__N__ac454b6f_4_a_cu__Z1fv1tIiEEvPT_",
                "_ZN11_GLOBAL__N_1tIiEEvPT_",
            ),
            ("__nv_static_22__ac454b6f_4_a_cu__Z1fv__Z2stPf", "_Z2stPf"),
            ("_ZN2t133_GLOBAL__N__ac454b6f_4_a_cu__Z1fv3hidEv", "_ZN2t111_GLOBAL__N_3hidEv"),
            (
                "_ZN2ns48_INTERNAL_b33cc311_11_binbcast_cu_00de11fa_157816op_addEff",
                "_ZN2ns10_INTERNAL_6op_addEff",
            ),
        ] {
            assert_eq!(stable_symbol(symbol), stable);
            assert_eq!(stable_symbol(stable), stable, "once is enough");
        }
    }

    #[test]
    fn other_symbols_are_left_alone() {
        for symbol in [
            "",
            "plain",
            "_Z1kPf",
            "_ZN12_GLOBAL__N_11kEv",
            "_INTERNAL_",
            "99_INTERNAL_00000000_",
            "__nv_static_",
            "__nv_static_9_x",
            "__nv_static_99999999999999999999_x",
            "18446744073709551615_INTERNAL_00000000_1_x",
            "2_INTERNAL_00000000_",
            "30_INTERNAL_ä0000000_11_binbcast_cu",
        ] {
            assert_eq!(stable_symbol(symbol), symbol);
        }
    }
}
