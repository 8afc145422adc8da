//! Reads the fatbins that nvcc put into a binary: an ELF section with one container after the other,
//! thousands in a large library.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use kernel_registry_cuda::fatbin::container_len;

use crate::{Error, Image, ImageKind, Unread, read};

/// The section of ELF files that holds fatbins.
pub const SECTION: &str = ".nv_fatbin";

/// The section of object files with device code that awaits the device linker (`-rdc=true`). It isn't an
/// image.
pub const RELOCATABLE_SECTION: &str = "__nv_relfatbin";

/// Reads all containers of these sections as one image, on all cores. Containers that cannot be read are
/// among the image's unread variants. Containers after a container with a damaged length are not found.
pub fn read_linked(sections: &[&[u8]]) -> Image {
    let mut all = Image::new(ImageKind::Fatbin, Vec::new());
    for image in read_each(sections) {
        match image {
            Ok(image) => {
                all.variants.extend(image.variants);
                all.unread.extend(image.unread);
            }
            Err(error) => all.unread.push(Unread { sm: 0, error }),
        }
    }
    all
}

/// Reads each container of these sections as a separate image, on all cores, and returns the images in the
/// order of the containers. If a container has a damaged length, the last image of its section is an error.
pub fn read_each(sections: &[&[u8]]) -> Vec<Result<Image, Error>> {
    let containers: Vec<_> = sections.iter().flat_map(|section| containers(section)).collect();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((number, container)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            containers.get(number).map(|container| (number, container))
        } {
            let image = container.as_ref().map_err(Error::clone).and_then(|container| read(container));
            results.lock().unwrap_or_else(PoisonError::into_inner).push((number, image));
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            // If no thread can be started, this one does all the work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, read)| read).collect()
}

/// Splits a section into its containers. A container with a damaged length hides the ones after it, so the
/// last result is then an error.
fn containers(section: &[u8]) -> Vec<Result<&[u8], Error>> {
    let (mut found, mut rest) = (Vec::new(), section);
    while let Some(start) = rest.iter().position(|byte| *byte != 0) {
        rest = &rest[start..];
        let Some((container, after)) = container_len(rest).and_then(|length| rest.split_at_checked(length))
        else {
            let why = "one is followed by something else".to_owned();
            found.push(Err(Error::malformed("a section of fatbins", why)));
            break;
        };
        found.push(Ok(container));
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use kernel_registry_cuda::fatbin::{Kind, Part, write};

    use super::*;

    fn container(kernel: &str) -> Vec<u8> {
        let ptx =
            format!(".version 8.0 .target sm_75 .address_size 64 .visible .entry {kernel}() {{ ret; }}");
        write(&[Part { kind: Kind::Ptx, sm: 75, flags: 0, bytes: ptx.as_bytes() }])
    }

    fn symbols(image: &Image) -> Vec<&str> {
        let entries = image.variants.iter().flat_map(|variant| &variant.entries);
        entries.map(|entry| &*entry.symbol).collect()
    }

    #[test]
    fn all_containers_of_all_sections_are_read_in_their_order() {
        let names: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
        let first: Vec<u8> =
            names[..60].iter().flat_map(|name| [container(name), vec![0; 8]].concat()).collect();
        let second: Vec<u8> = names[60..].iter().flat_map(|name| container(name)).collect();
        let image = read_linked(&[&first, &second]);
        assert_eq!(symbols(&image), names);
        assert!(image.unread.is_empty());
    }

    #[test]
    fn damage_is_reported_and_hides_nothing_before_it() {
        let (whole, mut damaged) = (container("whole"), container("damaged"));
        damaged[8] = 0xff;
        let image = read_linked(&[&[&whole[..], &damaged].concat(), b"something else", &[]]);
        assert_eq!(symbols(&image), ["whole"]);
        assert_eq!(image.unread.len(), 2);
    }

    #[test]
    fn empty_containers_cost_little() {
        let empty = write(&[]);
        let image = read_linked(&[&empty.repeat(100_000)]);
        assert_eq!(image.variants, []);
    }
}
