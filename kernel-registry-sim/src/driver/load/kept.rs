//! Keeps images that were read, for processes that are forked from this one: each run of a test in another order reads the same
//! images.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::image::{Image, Refused};

/// An image: the hash of its bytes, the architecture it's read for, and the driver's version.
type Key = (u64, u32, i32);

static KEPT: Mutex<Option<HashMap<Key, Arc<Image>>>> = Mutex::new(None);

/// The folder in which a forked process leaves images that it had to read.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

fn lock() -> MutexGuard<'static, Option<HashMap<Key, Arc<Image>>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads an image, or returns the one that was kept.
pub(crate) fn read(bytes: &[u8], arch: u32, version: i32) -> Result<Arc<Image>, Refused> {
    let Some(folder) = FOLDER.get() else { return Image::read(bytes, arch, version).map(Arc::new) };
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let key = (hasher.finish(), arch, version);
    if let Some(image) = lock().get_or_insert_default().get(&key) {
        return Ok(image.clone());
    }
    let image = Image::read(bytes, arch, version).map(Arc::new)?;
    // Under another name first, so that a partial file is never read. An error only means that the next process reads the image.
    let file = folder.join(format!("{}.{arch}.{version}.image", key.0));
    let new = file.with_extension(format!("{}", std::process::id()));
    let _ = fs::write(&new, bytes).and_then(|()| fs::rename(&new, &file));
    Ok(image)
}

/// Makes processes that are forked from now on leave their images in a folder.
pub(crate) fn keep_in(folder: &Path) {
    let _ = FOLDER.set(folder.to_owned());
}

/// Reads the images that such processes have left.
pub(crate) fn learn() {
    let left = FOLDER.get().and_then(|folder| fs::read_dir(folder).ok());
    for file in left.into_iter().flatten().flatten().map(|file| file.path()) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut words = name.split('.');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (Some(hash), Some(arch), Some(version)) = (number(), number(), number()) else { continue };
        let (key, bytes) = ((hash, arch as u32, version as i32), fs::read(&file));
        let image = bytes.ok().and_then(|bytes| Image::read(&bytes, key.1, key.2).ok());
        if let Some(image) = image {
            lock().get_or_insert_default().insert(key, Arc::new(image));
        }
        let _ = fs::remove_file(&file);
    }
}
