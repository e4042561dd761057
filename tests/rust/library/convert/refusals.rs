//! Impossible conversions are refused with the name of the file or tensor, and leave no
//! files.

use std::path::Path;

use zstn::convert::Target;
use zstn::{Error, Tensor};
use zstn_core::ErrorKind;
use zstn_core::container::foreign::gauss::{Components, GaussOptions};
use zstn_core::container::foreign::ztensor::{SourceTensor, write};
use zstn_core::dtype::Dtype;
use zstn_core::pure::Pure;

use super::{COMMON, file, folder, gauss_options, listing, model, run, target, tensor};

const OUTPUTS: [&str; 7] = [
    "no.safetensors",
    "no.safetensors.index.json",
    "no.zstn",
    "no.zstn.index.json",
    "no.zt",
    "no.gauss",
    "no/",
];

/// Returns the error of a conversion that must not change the folder.
fn refused(folder: &Path, input: &str, output: &str, target: &Target) -> Error {
    let before = listing(folder);
    let error = run(folder, input, output, target).expect_err(output);
    assert_eq!(listing(folder), before, "{output}");
    error
}

fn with(odd: Tensor) -> tempfile::TempDir {
    let mut tensors = model(&COMMON);
    tensors.push(odd);
    folder(&tensors, &[])
}

#[test]
fn dtypes_that_a_target_cannot_hold() {
    for dtype in Dtype::ALL {
        let folder = with(tensor("odd one", dtype, &[8]));
        for (output, holds) in [
            (
                "out.zt",
                zstn_core::container::foreign::ztensor::can_write(dtype),
            ),
            ("out.gauss", COMMON.contains(&dtype)),
        ] {
            let target = target(output);
            if holds {
                run(folder.path(), "in.safetensors", output, &target).expect("converted");
                std::fs::remove_file(folder.path().join(output)).expect("there");
                continue;
            }
            let error = refused(folder.path(), "in.safetensors", output, &target);
            let refusal = error.refusal().expect("a refusal");
            assert_eq!(refusal.kind(), ErrorKind::Unsupported);
            assert_eq!(refusal.tensor_name(), Some("odd one"));
            assert!(error.to_string().contains(dtype.name()), "{error}");
        }
    }
}

#[test]
fn names_and_sizes_that_a_target_cannot_hold() {
    let long = "n".repeat(65536);
    let folder = with(tensor(&long, Dtype::F32, &[2]));
    for output in ["no.zstn", "no.zstn.index.json", "no.gauss"] {
        let error = refused(folder.path(), "in.safetensors", output, &target(output));
        let name = error.refusal().and_then(|refusal| refusal.tensor_name());
        assert!(name == Some(&long), "{output}");
    }
    run(folder.path(), "in.safetensors", "ok.zt", &target("ok.zt")).expect("converted");

    let entry = SourceTensor::dense("__metadata__", Dtype::U8, &[1]);
    let odd = write(&Pure, &[(entry, &[7])]).expect("a file");
    std::fs::write(folder.path().join("odd.zt"), odd).expect("written");
    for output in [
        "no.safetensors",
        "no.safetensors.index.json",
        "no.zstn",
        "no/",
    ] {
        let error = refused(folder.path(), "odd.zt", output, &target(output));
        let name = error.refusal().and_then(|refusal| refusal.tensor_name());
        assert_eq!(name, Some("__metadata__"), "{output}");
    }

    let folder = with(tensor("a.bitmask", Dtype::U8, &[2]));
    let error = refused(folder.path(), "in.safetensors", "no/", &target("no/"));
    let name = error.refusal().and_then(|refusal| refusal.tensor_name());
    assert_eq!(name, Some("a.bitmask"));
}

#[test]
fn damage_found_on_the_way_leaves_nothing() {
    let folder = folder(&model(&COMMON), &[]);
    run(folder.path(), "in.safetensors", "good.zt", &{
        Target::ZTensor {
            is_zstd: false,
            checksum: Some(zstn_core::container::foreign::ztensor::DigestKind::Crc32c),
        }
    })
    .expect("converted");
    let mut file = std::fs::read(folder.path().join("good.zt")).expect("a file");
    // These are the last bytes of the last sufficiently long tensor.
    let tensors = model(&COMMON);
    let last = tensors.iter().rfind(|tensor| tensor.bytes.len() > 16);
    let last = &last.expect("a tensor").bytes;
    let start = file.windows(last.len()).position(|window| window == last);
    let last = start.expect("stored as it is") + last.len() - 1;
    file[last] ^= 1;
    std::fs::write(folder.path().join("bad.zt"), file).expect("written");
    for output in OUTPUTS {
        let error = refused(folder.path(), "bad.zt", output, &target(output));
        let refusal = error.refusal().expect("a refusal");
        assert_eq!(refusal.kind(), ErrorKind::Malformed, "{error}");
    }
    for output in OUTPUTS {
        refused(folder.path(), "missing.zt", output, &target(output));
    }
}

#[test]
fn an_earlier_file_survives_an_error() {
    let folder = with(tensor("odd one", Dtype::C64, &[8]));
    std::fs::write(folder.path().join("out.zt"), b"precious").expect("written");
    refused(folder.path(), "in.safetensors", "out.zt", &target("out.zt"));
    let kept = std::fs::read(folder.path().join("out.zt")).expect("there");
    assert_eq!(kept, b"precious");
}

#[test]
fn the_input_is_not_replaced() {
    let folder = folder(&model(&COMMON), &[]);
    let at = |name: &str| folder.path().join(name);
    let before = std::fs::read(at("in.safetensors")).expect("a file");
    let same = format!(
        "../{}/in.safetensors",
        folder.path().file_name().unwrap().display()
    );
    for output in ["in.safetensors", &same] {
        let error = refused(
            folder.path(),
            "in.safetensors",
            output,
            &Target::Safetensors,
        );
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
    assert!(std::fs::read(at("in.safetensors")).expect("there") == before);

    // An input is not replaced by an output shard of the same name either.
    let index = "m.safetensors.index.json";
    run(folder.path(), "in.safetensors", index, &Target::Safetensors).expect("converted");
    let shard = listing(folder.path())
        .into_iter()
        .find(|name| name.starts_with("m-00001-of-"))
        .expect("a first shard");
    std::fs::copy(at("in.safetensors"), at(&shard)).expect("copied");
    let error = refused(folder.path(), &shard, index, &Target::Safetensors);
    assert!(error.to_string().contains(&shard), "{error}");
    assert!(std::fs::read(at(&shard)).expect("there") == before);
}

#[test]
fn folders_that_hold_something_are_not_touched() {
    let folder = folder(&model(&COMMON), &[]);
    std::fs::create_dir(folder.path().join("full")).expect("a folder");
    std::fs::write(folder.path().join("full/file"), b"mine").expect("written");
    for output in ["full", "full/", "in.safetensors/"] {
        let error = refused(folder.path(), "in.safetensors", output, &target("x/"));
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
    assert_eq!(listing(&folder.path().join("full")), ["file"]);
}

#[test]
fn gauss_options_are_checked_before_anything_is_read() {
    let folder = folder(&model(&COMMON), &[]);
    for count in [0, 1, 256] {
        let options = GaussOptions {
            components: Components::Exactly(count),
            ..gauss_options()
        };
        let target = Target::Gauss(options);
        let error = refused(folder.path(), "missing.safetensors", "no.gauss", &target);
        assert!(error.to_string().contains("2 to 255"), "{error}");
    }
    let target = Target::Gauss(GaussOptions {
        layers: Some(vec!["F32.vector".into(), "nothing".into()]),
        ..gauss_options()
    });
    let error = refused(folder.path(), "in.safetensors", "no.gauss", &target);
    let refusal = error.refusal().expect("a refusal");
    assert_eq!(refusal.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[test]
fn indices_are_of_two_kinds_of_file() {
    let folder = folder(&model(&COMMON), &[]);
    for (output, target) in [
        ("m.safetensors.index.json", target("m.zstn")),
        ("m.gauss.index.json", target("m.gauss")),
        ("m.index.json", Target::Safetensors),
    ] {
        let error = refused(folder.path(), "in.safetensors", output, &target);
        assert!(
            error.to_string().contains("not a name for an index"),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_breaks_the_rules_of_safetensors() {
    let folder = folder(&[], &[]);
    let mut broken = file(&model(&COMMON), &[]);
    broken.push(0);
    std::fs::write(folder.path().join("broken.safetensors"), broken).expect("written");
    for output in OUTPUTS {
        refused(folder.path(), "broken.safetensors", output, &target(output));
    }
}
