//! `zstn diff`: its table, its messages and its exit status.

use zstn_tests::checkpoint;
use zstn_tests::command::{text, zstn};
use zstn_tests::rng::Rng;

use crate::folder_with;

#[test]
fn a_table_shows_what_changed() {
    let floats = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
    let kept = Rng(1).bf16_weights(3000);
    let base = checkpoint(&[
        ("kept", "BF16", &kept),
        ("layers.0.weight", "F32", &floats([3.0, 0.0, 0.0, 4.0])),
        ("norm", "F32", &floats([1.0; 4])),
        ("gone", "U8", &[1]),
    ]);
    let tuned = checkpoint(&[
        ("kept", "BF16", &kept),
        ("layers.0.weight", "F32", &floats([3.0, 0.0, 0.5, 4.0])),
        ("norm", "F32", &floats([1.0, f32::NAN, 1.0, 1.0])),
    ]);
    let folder = folder_with("base.safetensors", &base);
    std::fs::write(folder.path().join("tuned.safetensors"), tuned).unwrap();
    let run = |arguments: &[&str]| {
        let out = zstn(folder.path(), arguments);
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let (status, table, messages) = run(&["diff", "base.safetensors", "tuned.safetensors"]);
    assert_eq!(status, Some(1), "{messages}");
    assert_eq!(
        table,
        "name             dtype  shape  changed  relative  largest\n\
         norm             F32    [4]     25.0 %         0        0  1 became NaN or infinite\n\
         layers.0.weight  F32    [4]     25.0 %     0.100    0.500\n"
    );
    assert_eq!(
        messages,
        "only in base.safetensors: 1 tensor (gone)\n\
         2 of 3 tensors changed, 0.066 % of all elements; 1 tensor equal, compared byte by byte\n"
    );

    for model in ["base", "tuned"] {
        let (status, _, messages) = run(&["pack", &format!("{model}.safetensors")]);
        assert_eq!(status, Some(0), "{messages}");
    }
    let (status, table, messages) = run(&["diff", "base.zstn", "tuned.zstn", "--no-figures"]);
    assert_eq!(status, Some(1), "{messages}");
    assert!(table.contains("norm") && table.contains('–'), "{table}");
    assert!(
        messages.contains("1 tensor equal, as the files state"),
        "{messages}"
    );
    let (status, table, messages) = run(&["diff", "base.zstn", "base.safetensors"]);
    assert_eq!((status, &*table), (Some(0), ""));
    assert_eq!(
        messages,
        "base.zstn and base.safetensors are equal: 4 tensors equal, compared byte by byte\n"
    );
    let (status, ..) = run(&["diff", "base.zstn"]);
    assert_eq!(status, Some(2));
}
