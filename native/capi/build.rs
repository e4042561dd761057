//! Sets the soname (or install name) that programs use to find the shared library.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let major = env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    // The exported symbols need no setting: rustc passes a version script that exports
    // only the `no_mangle` functions, and linkers accept no second script.
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
