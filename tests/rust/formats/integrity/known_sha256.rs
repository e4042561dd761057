//! A SHA-256 that was given to the packer: nothing else in the file depends on it, and
//! a wrong one is detected whenever the whole file is restored.

use std::path::Path;

use zstn::{Input, Job, PackOptions, Reader, Sink, UnpackOptions, VerifyOptions};
use zstn_core::container::zstn::{
    ContainerOptions, IncrementalPacker, OriginalSha256, pack, parse_sha256, unpack,
};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::tier::stepped;
use zstn_tests::{sha256, with_header};

use super::section::{rule, section, with_records};
use super::{Disk, original, packed, read_all};

const WRONG: [u8; 32] = [0xAB; 32];

fn right(file: &[u8]) -> [u8; 32] {
    parse_sha256(&sha256(file)).expect("64 digits")
}

/// Packs a file with the native packer.
fn pack_as(disk: &Disk, file: &[u8], options: &PackOptions) -> zstn::Result<Vec<u8>> {
    let target = disk.path("target.zstn");
    zstn::pack(
        &Job::new().engine(&disk.engine),
        Input::bytes("model", file.to_vec()),
        &target,
        options,
    )?;
    let bytes = std::fs::read(&target).expect("packed");
    std::fs::remove_file(&target).expect("there");
    Ok(bytes)
}

fn claiming(disk: &Disk, sha256: [u8; 32]) -> Vec<u8> {
    pack_as(disk, &original(), &PackOptions::default().sha256(sha256)).expect("packs")
}

/// Packs a file incrementally.
fn pack_incrementally(file: &[u8], options: ContainerOptions) -> zstn_core::Result<Vec<u8>> {
    let mut packing = IncrementalPacker::new(file.len() as u64, options);
    let mut out = Vec::new();
    while let Some(range) = packing.needs() {
        out.extend(packing.supply(&Pure, zstn_core::bytes::part(file, range))?);
    }
    Ok(out)
}

/// Checks that the message contains the actual and the claimed digest.
fn names_both(message: &str) {
    assert!(message.contains(&sha256(&original())), "{message}");
    assert!(message.contains(&"ab".repeat(32)), "{message}");
}

#[test]
fn a_right_claim_is_marked_and_changes_nothing_else() {
    let (original, disk) = (original(), Disk::new());
    let claimed = claiming(&disk, right(&original));
    let computed = packed();
    let mut records = section(&computed).1;
    records.insert(1, ("CLMD".into(), Vec::new()));
    assert!(with_records(&computed, 1, &records) == claimed);

    assert!(disk.unpack(&claimed).expect("restored") == original);
    assert!(disk.verify(&claimed).expect("verified"));
    assert!(unpack(&Pure, &claimed).expect("restored") == original);
    assert!(read_all(&claimed).expect("in order") == read_all(&computed).expect("in order"));
}

#[test]
fn nobody_vouches_for_a_claim() {
    let (original, disk) = (original(), Disk::new());
    let digests = |file: &[u8]| {
        let reader = Reader::open(Input::bytes("model", file.to_vec())).expect("opens");
        let integrity = reader.model().files()[0].integrity().expect("a section");
        (
            integrity.original_sha256().copied(),
            integrity.claimed_sha256().copied(),
        )
    };
    let right = right(&original);
    assert_eq!(digests(&packed()), (Some(right), None));
    assert_eq!(digests(&claiming(&disk, right)), (None, Some(right)));
    assert_eq!(digests(&claiming(&disk, WRONG)), (None, Some(WRONG)));
}

#[test]
fn a_wrong_claim_shows_when_the_file_is_restored() {
    let disk = Disk::new();
    let file = claiming(&disk, WRONG);
    // Tensors have their own digests.
    assert!(read_all(&file).expect("in order") == read_all(&packed()).expect("in order"));

    let error = disk.unpack(&file).expect_err("wrong");
    names_both(&error.to_string());
    assert!(error.to_string().contains("given when it was packed"));
    assert_eq!(
        rule(Err::<(), _>(error)),
        (Some(Rule::ZstnFileDigest), None)
    );
    assert!(!disk.path("m.safetensors").exists());

    let error = disk.verify(&file).expect_err("wrong");
    names_both(&error.to_string());
    assert_eq!(
        rule(Err::<(), _>(error)),
        (Some(Rule::ZstnFileDigest), None)
    );

    let error = unpack(&Pure, &file).expect_err("wrong");
    names_both(&error.to_string());
    assert_eq!(error.rule(), Some(Rule::ZstnFileDigest));

    let mut received = Vec::new();
    let sink = Sink::writer(&mut received);
    let source = Input::bytes("model.zstn", file.clone());
    let unpacked = zstn::unpack(
        &Job::new().engine(&disk.engine),
        source,
        sink,
        &UnpackOptions::default(),
    );
    assert_eq!(rule(unpacked), (Some(Rule::ZstnFileDigest), None));
    let is_cut = received.len() < original().len() && original().starts_with(&received);
    assert!(
        is_cut,
        "a writer gets compared tensors, but no complete file"
    );

    // A packed base is unpacked, which checks its digest.
    let base = Input::bytes("base.zstn", file);
    let error = pack_as(&disk, &original(), &PackOptions::default().base(base));
    assert_eq!(rule(error), (Some(Rule::ZstnFileDigest), None));
}

#[test]
fn a_claim_can_be_confirmed_once_it_has_been_compared() {
    let disk = Disk::new();
    let confirm = |file: &[u8], options: VerifyOptions| {
        let path = disk.write(file);
        let job = Job::new().engine(&disk.engine);
        let report = zstn::verify(&job, &path, &options.confirm(true));
        let report = report.map(|report| report.files[0].is_confirmed);
        (report, std::fs::read(path).expect("there"))
    };
    let (computed, claimed) = (packed(), claiming(&disk, right(&original())));
    // Records with unknown tags are kept.
    let with_unknown = |file: &[u8]| {
        let mut records = section(file).1;
        records.push(("NEWR".into(), vec![1, 2, 3]));
        with_records(file, 1, &records)
    };
    for (before, after, is_claimed) in [
        (claimed.clone(), computed.clone(), true),
        (with_unknown(&claimed), with_unknown(&computed), true),
        (computed.clone(), computed, false),
    ] {
        let (confirmed, found) = confirm(&before, VerifyOptions::default());
        assert_eq!(confirmed.expect("verified"), is_claimed);
        assert!(found == after);
    }
    let wrong = claiming(&disk, WRONG);
    let (confirmed, found) = confirm(&wrong, VerifyOptions::default());
    assert_eq!(rule(confirmed), (Some(Rule::ZstnFileDigest), None));
    assert!(found == wrong, "the file is as it was");
    let other = Input::bytes("other", vec![0; 100]);
    let (confirmed, found) = confirm(&claimed, VerifyOptions::default().original(other));
    assert!(confirmed.is_err() && found == claimed);
    let left = std::fs::read_dir(disk.path("")).expect("a folder").count();
    assert_eq!(left, 1, "no copy is left");

    let in_memory = Input::bytes("m.zstn", claimed);
    let options = VerifyOptions::default().confirm(true);
    let refused = zstn::verify(&Job::new().engine(&disk.engine), in_memory, &options);
    assert!(matches!(refused, Err(zstn::Error::Usage(_))));
}

/// A fast verification does not compute the SHA-256 of the file, and its report states that.
#[test]
fn a_fast_verification_leaves_out_only_the_sha256() {
    let disk = Disk::new();
    let verify = |file: &[u8], options: VerifyOptions| {
        let job = Job::new().engine(&disk.engine);
        let report = zstn::verify(&job, disk.write(file), &options)?;
        let file = &report.files[0];
        Ok::<_, zstn::Error>((file.has_digests, file.has_file_digest))
    };
    let (fast, full) = (
        VerifyOptions::default().fast(true),
        VerifyOptions::default(),
    );
    let (file, wrong) = (packed(), claiming(&disk, WRONG));
    assert_eq!(verify(&file, full.clone()).expect("verified"), (true, true));
    assert_eq!(
        verify(&file, fast.clone()).expect("verified"),
        (true, false)
    );
    assert_eq!(
        verify(&wrong, fast.clone()).expect("verified"),
        (true, false)
    );
    assert!(verify(&wrong, full).is_err());
    for bit in stepped(0..file.len() * 8, 61) {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(verify(&flipped, fast.clone()).is_err(), "bit {bit}");
    }
    assert!(matches!(
        verify(&file, fast.confirm(true)),
        Err(zstn::Error::Usage(_))
    ));
}

#[test]
fn all_packers_store_the_same_claim() {
    let original = original();
    for (given, wrong) in [
        (OriginalSha256::Claimed(WRONG), true),
        (OriginalSha256::Claimed(right(&original)), false),
        (OriginalSha256::Checked(right(&original)), false),
    ] {
        let options = ContainerOptions::default().original_sha256(given);
        let whole = pack(&Pure, &original, options).expect("packs");
        assert!(pack_incrementally(&original, options).expect("packs") == whole);
        assert_eq!(unpack(&Pure, &whole).is_err(), wrong);
        let computed = pack(&Pure, &original, ContainerOptions::default()).expect("packs");
        let is_marked = matches!(given, OriginalSha256::Claimed(_));
        assert_eq!(whole.len(), computed.len() + usize::from(is_marked) * 12);
        assert_eq!(whole == computed, !is_marked);
    }
}

/// A file packed as a single frame cannot store a digest, so the claim is checked while
/// packing.
#[test]
fn a_file_that_breaks_the_rules_is_compared_at_once() {
    let (disk, file) = (Disk::new(), [original(), vec![7; 9]].concat());
    let computed = pack_as(&disk, &file, &PackOptions::default()).expect("packs");
    let options = PackOptions::default().sha256(right(&file));
    assert!(pack_as(&disk, &file, &options).expect("packs") == computed);
    let options =
        ContainerOptions::default().original_sha256(OriginalSha256::Claimed(right(&file)));
    assert!(unpack(&Pure, &pack(&Pure, &file, options).expect("packs")).expect("restored") == file);

    let error = pack_as(&disk, &file, &PackOptions::default().sha256(WRONG)).expect_err("wrong");
    let message = error.to_string();
    assert_eq!(error.code(), "invalid_input");
    assert!(message.contains(&sha256(&file)) && message.contains(&"ab".repeat(32)));
    assert!(!disk.path("target.zstn").exists());
    let options = ContainerOptions::default().original_sha256(OriginalSha256::Claimed(WRONG));
    for packed in [
        pack(&Pure, &file, options),
        pack_incrementally(&file, options),
    ] {
        assert_eq!(packed.expect_err("wrong").kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_claim_without_a_place_is_refused() {
    let (disk, original) = (Disk::new(), original());
    let options = PackOptions::default().sha256(right(&original));
    let base = Input::bytes("base", original.clone());
    for (options, reason) in [
        (options.clone().base(base), "delta"),
        (options.clone().integrity(false), "checksums"),
    ] {
        let error = pack_as(&disk, &original, &options).expect_err("no place");
        assert!(
            error.code() == "usage" && error.to_string().contains(reason),
            "{error}"
        );
    }
    let folder = disk.path("folder");
    std::fs::create_dir(&folder).expect("created");
    std::fs::write(folder.join("model.safetensors"), &original).expect("written");
    let target = disk.path("packed");
    let error = zstn::pack(
        &Job::new().engine(&disk.engine),
        &*folder,
        &*target,
        &options,
    )
    .expect_err("several files");
    assert!(
        error.code() == "usage" && error.to_string().contains("several files"),
        "{error}"
    );
    assert!(!Path::new(&target).exists());
}

#[test]
fn a_digest_has_64_hexadecimal_digits() {
    let digits = sha256(b"text");
    let parsed = parse_sha256(&digits).expect("64 digits");
    assert_eq!(parse_sha256(&digits.to_uppercase()), Ok(parsed));
    assert_eq!(parse_sha256(&"ab".repeat(32)), Ok(WRONG));
    for text in [
        "",
        &digits[..63],
        &format!("{digits}0"),
        &format!("sha256:{digits}"),
        &format!("{}g", &digits[..63]),
        &format!("+{}", &digits[..63]),
        &"ä".repeat(32),
    ] {
        let error = parse_sha256(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("64 hexadecimal digits"));
    }
}

/// A tensor without bytes has a digest, too, and comes after the last byte of the file.
#[test]
fn a_stream_stays_incomplete_while_the_digest_of_an_empty_tensor_is_wrong() {
    let disk = Disk::new();
    let empty = r#"{"e":{"dtype":"F32","shape":[0,128],"data_offsets":[0,0]}}"#;
    let last = r#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"e":{"dtype":"U8","shape":[0],"data_offsets":[3,3]}}"#;
    for original in [with_header(empty, []), with_header(last, [1, 2, 3])] {
        let packed = pack_as(&disk, &original, &PackOptions::default()).expect("packs");
        let mut records = section(&packed).1;
        for (tag, value) in &mut records {
            let last = value.len() - 1;
            value[last] ^= u8::from(tag == "TENS" || tag == "FILE");
        }
        let damaged = with_records(&packed, 1, &records);
        let mut restored = Vec::new();
        let (input, sink) = (
            Input::bytes("m", damaged.clone()),
            Sink::writer(&mut restored),
        );
        let job = Job::new().engine(&disk.engine);
        let unpacked = rule(zstn::unpack(&job, input, sink, &UnpackOptions::default()));
        let named = (Some(Rule::ZstnTensorDigest), Some("e".into()));
        assert_eq!(unpacked, named);
        assert_eq!(rule(disk.verify(&damaged)), named);
        assert!(restored.len() < original.len());
    }
}
