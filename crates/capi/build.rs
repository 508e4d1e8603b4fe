//! The link options of the shared library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The number is `OPKEEP_ABI`; cargo-c gives the same one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libopkeep.so.1");
    // Threads and handlers of the library may run at any time, so `dlclose` must not unload it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
