//! Describes the simulated driver in a sentence, by the same calls that a program would make.

use kernel_registry_command::driver::{Answer, Library};

pub(super) fn sentence(driver: &Library) -> Answer<String> {
    let version = driver.version()?;
    let devices = match driver.init() {
        Ok(()) => names(driver)?,
        Err(refused) if refused.code == NO_DEVICE => Vec::new(),
        Err(refused) => return Err(refused),
    };
    Ok(format!("a CUDA driver in software, of CUDA {version}, with {}", listed(&devices)))
}

const NO_DEVICE: i32 = 100;

fn names(driver: &Library) -> Answer<Vec<String>> {
    (0..driver.device_count()?).map(|ordinal| driver.device(ordinal)?.name()).collect()
}

/// Lists devices in order; equal neighbours are counted.
fn listed(devices: &[String]) -> String {
    let groups = devices.chunk_by(|one, other| one == other);
    let groups: Vec<_> = groups.map(|group| format!("{} x {}", group.len(), group[0])).collect();
    match groups.as_slice() {
        [] => "no device".to_owned(),
        groups => groups.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted_in_their_order() {
        let listed = |names: &[&str]| listed(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(listed(&[]), "no device");
        assert_eq!(listed(&["A", "A", "B", "A"]), "2 x A, 1 x B, 1 x A");
    }
}
