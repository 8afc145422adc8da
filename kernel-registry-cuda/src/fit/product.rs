//! Finds GPUs by their product names.

use super::Device;

/// A GPU product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// The product name, without `NVIDIA` and `GeForce`.
    pub name: &'static str,
    /// The architecture: 90 for `sm_90`.
    pub sm: u32,
    /// The number of multiprocessors, or 0 if it is not known here.
    pub processors: u32,
}

const fn product(name: &'static str, sm: u32, processors: u32) -> Product {
    Product { name, sm, processors }
}

/// The products, from NVIDIA's descriptions. V100 is only listed so that its name is recognized: CUDA 13
/// doesn't compile for anything older than sm_75, and [`Device`] has no row for sm_70.
const PRODUCTS: [Product; 31] = [
    product("V100", 70, 80),
    product("T4", 75, 40),
    product("RTX 2080 Ti", 75, 68),
    product("A100", 80, 108),
    product("A30", 80, 56),
    product("A10", 86, 72),
    product("A40", 86, 84),
    product("RTX A6000", 86, 84),
    product("RTX 3060", 86, 28),
    product("RTX 3070", 86, 46),
    product("RTX 3080", 86, 68),
    product("RTX 3090", 86, 82),
    product("Jetson AGX Orin", 87, 16),
    product("L4", 89, 58),
    product("L40", 89, 142),
    product("L40S", 89, 142),
    product("RTX 6000 Ada", 89, 142),
    product("RTX 4070", 89, 46),
    product("RTX 4080", 89, 76),
    product("RTX 4090", 89, 128),
    product("H100", 90, 132),
    product("H100 SXM", 90, 132),
    product("H100 PCIe", 90, 114),
    product("H200", 90, 132),
    product("GH200", 90, 132),
    product("B200", 100, 148),
    product("B300", 103, 0),
    product("Jetson Thor T5000", 110, 20),
    product("RTX 5080", 120, 84),
    product("RTX 5090", 120, 170),
    product("GB10", 121, 48),
];

impl Product {
    /// Finds a product by name. Case, spaces, `-`, `_` and a leading `NVIDIA`, `GeForce` or `Tesla` are
    /// ignored.
    ///
    /// ```
    /// use kernel_registry_cuda::fit::Product;
    ///
    /// let names = ["RTX 4090", "rtx4090", "NVIDIA GeForce RTX 4090"];
    /// assert_eq!(names.map(|name| Product::named(name).map(|product| product.sm)), [Some(89); 3]);
    /// ```
    pub fn named(name: &str) -> Option<&'static Product> {
        let (mut rest, words) = (name.trim(), ["nvidia", "geforce", "tesla"]);
        while let Some(word) = words.iter().find(|word| starts_with(rest, word)) {
            rest = rest[word.len()..].trim_start_matches([' ', '-', '_']);
        }
        PRODUCTS.iter().find(|product| compared_letters(product.name).eq(compared_letters(rest)))
    }

    /// Returns all products, sorted by architecture.
    pub fn all() -> &'static [Product] {
        &PRODUCTS
    }

    /// Returns the product's resources, or `None` if the table has no row for its architecture.
    pub fn device(&self) -> Option<Device> {
        let row = Device::of(self.sm)?;
        Some(Device { processors: self.processors, product: Some(self.name), ..row.clone() })
    }
}

fn starts_with(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Returns the characters of a name that are compared, in lower case.
fn compared_letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).map(|c| c.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_the_rows_of_their_architectures() {
        assert!(PRODUCTS.is_sorted_by_key(|product| product.sm));
        for row in Device::all() {
            for name in row.product.into_iter().flat_map(|names| names.split(", ")) {
                let product = Product::named(name).unwrap_or_else(|| panic!("{name}"));
                assert_eq!((product.sm, product.processors), (row.sm, row.processors), "{name}");
            }
        }
        let a100 = Product::named("a100").and_then(Product::device).unwrap();
        assert_eq!(Some(&a100), Device::of(80));
        assert_eq!(Product::named("Tesla V100").map(Product::device), Some(None));
        assert_eq!(Product::named("RTX 4091"), None);
        assert_eq!(Product::named("nvidia"), None);
    }
}
