//! The name by which programs find the shared library.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let major = env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    // rustc exports what has `no_mangle` here and nothing else, by a version
    // script of its own next to which linkers take no second one.
    match &*system {
        "linux" | "android" | "freebsd" => {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libzstn.so.{major}");
        }
        "macos" => {
            let name = format!("@rpath/libzstn.{major}.dylib");
            println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,{name}");
        }
        _ => {}
    }
}
