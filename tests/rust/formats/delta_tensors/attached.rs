//! Differences whose base is a packed file with digests. Readers use these digests
//! instead of computing them, and must reject the same inputs as without them.

use zstn_core::Rule;
use zstn_core::bytes::part;
use zstn_core::catalog::FileCatalog;
use zstn_core::container::model_delta::{Base, pack};
use zstn_core::container::zstn::{self, ContainerOptions};
use zstn_core::frame::select::EncodeOptions;
use zstn_core::model::{DecodeTask, Model, ModelBuilder};
use zstn_core::pure::Pure;
use zstn_tests::extended::fine_tuned;

use super::opened;

/// Name of a tensor with small changes everywhere.
const CHANGED: &str = "up";

fn catalog(file: &[u8]) -> FileCatalog {
    opened(file).expect("opens").catalog
}

fn model(file: &[u8]) -> Model {
    let builder = ModelBuilder::new(vec![catalog(file)], None, None).expect("a model");
    builder.finish(&Pure).expect("a model")
}

/// Returns the stored bytes of the tensor [`CHANGED`].
fn stored(file: &[u8]) -> &[u8] {
    let catalog = catalog(file);
    let number = catalog.find(CHANGED).expect("is there");
    part(file, catalog.tensors()[number].stored.clone())
}

#[test]
fn a_base_that_holds_digests_changes_neither_tensors_nor_refusals() {
    let (base, tuned) = fine_tuned();
    let parsed = Base::parse(&base).expect("a base");
    let options = EncodeOptions::default().extended(true);
    let delta = pack(&Pure, &tuned, &parsed, options).expect("packs");
    let [right, expected] = [&base, &tuned].map(|file| stored(file));
    let mut wrong = right.to_vec();
    wrong[77] ^= 1;
    let mut other_base = base.clone();
    let at = base.windows(64).position(|bytes| bytes == &right[..64]);
    other_base[at.expect("is in the file") + 77] ^= 1;

    let alone = model(&delta);
    let number = alone.find(CHANGED).expect("is there");
    let bases = [&base, &other_base].map(|base| {
        let packed = zstn::pack(&Pure, base, ContainerOptions::default()).expect("packs");
        [model(&packed), model(base)]
    });
    for base in bases.as_flattened() {
        let mut attached = model(&delta);
        attached.attach_base(base).expect("fits");
        let task = attached.decode_task(number).expect("a task").to_bytes();
        let task = DecodeTask::from_bytes(&task).expect("a task");
        let decode = |stored: &[u8], base: &[u8]| {
            let parts = [stored];
            let direct = attached.decode(&Pure, number, &parts, Some(base));
            let by_task = task.decode(&Pure, &parts, Some(base));
            let unattached = alone.decode(&Pure, number, &parts, Some(base));
            assert_eq!(direct, unattached);
            assert_eq!(by_task, unattached);
            unattached.map(Vec::from)
        };
        let good = stored(&delta);
        assert!(decode(good, right).expect("decodes") == expected);
        let error = decode(good, &wrong).expect_err("another base");
        assert_eq!(error.rule(), Some(Rule::DeltaReference));
        for step in [1, good.len() / 2, good.len() - 1] {
            let mut damaged = good.to_vec();
            damaged[step] ^= 0x10;
            assert!(decode(&damaged, right).is_err(), "{step}");
            assert!(decode(&damaged, &wrong).is_err(), "{step}");
        }
    }
}
