//! Reads the images of the tests.

use std::fs;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Reads one image.
#[allow(dead_code)]
pub fn image(name: &str) -> Vec<u8> {
    fs::read(folder().join("images").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Reads all images, with their names.
#[allow(dead_code)]
pub fn images() -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder().join("images")).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names.into_iter().map(|name| (name.clone(), image(&name))).collect()
}

/// Reads the output of NVIDIA's tools for the images.
#[allow(dead_code)]
pub fn golden() -> serde_json::Value {
    let text = fs::read_to_string(folder().join("golden/golden.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}
