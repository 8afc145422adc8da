//! PTX of kernels `k0`, `k1`, .., each of which writes its number.

/// The names of the images in the registry.
pub(crate) const SMALL: &str = "small.ptx";
pub(crate) const CUT: &str = "cut.ptx";
pub(crate) const COUNTING: &str = "counting.ptx";

/// An image of three kernels. Those of different images write other numbers.
pub(crate) fn small(image: u32) -> String {
    image_of(1000 * image, 3, 0)
}

/// An image that is large enough to be compiled in pieces.
pub(crate) fn cut() -> String {
    image_of(3000, 6, 400)
}

/// An image whose kernel writes how often it was launched, and 5 more.
pub(crate) fn counting() -> String {
    ".version 8.0\n.target sm_75\n.address_size 64\n.global .u32 counter = 5;\n.visible .entry k0(.param .u64 out)\n{\n    \
     .reg .u32 %n; .reg .u64 %o;\n    ld.global.u32 %n, [counter];\n    add.u32 %n, %n, 1;\n    st.global.u32 [counter], %n;\n    \
     ld.param.u64 %o, [out];\n    cvta.to.global.u64 %o, %o;\n    st.global.u32 [%o], %n;\n    ret;\n}\n"
        .to_owned()
}

fn image_of(first: u32, kernels: u32, padding: usize) -> String {
    let kernels = (0..kernels).map(|number| kernel(number, first + number, padding));
    kernels.fold(".version 8.0\n.target sm_75\n.address_size 64\n".to_owned(), |text, kernel| text + &kernel)
}

fn kernel(number: u32, writes: u32, padding: usize) -> String {
    let padding = "    add.u32 %n, %n, 1;\n    sub.u32 %n, %n, 1;\n".repeat(padding);
    format!(
        ".visible .entry k{number}(.param .u64 out)\n{{\n    .reg .u32 %n; .reg .u64 %o;\n    mov.u32 %n, {writes};\n{padding}    \
         ld.param.u64 %o, [out];\n    cvta.to.global.u64 %o, %o;\n    st.global.u32 [%o], %n;\n    ret;\n}}\n"
    )
}
