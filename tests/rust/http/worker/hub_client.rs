//! Refusals of a hub, as errors.

use zstn::Error;
use zstn::hub::{Hub, NewCommit, Refusal, Repository};
use zstn_tests::stub_hub::RepoId;

use super::Desk;
use super::desk::{REPO, small};

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result.unwrap_err() {
        Error::Hub(refusal) => refusal,
        other => panic!("{other}"),
    }
}

#[test]
fn refusals_have_their_kind() {
    let desk = Desk::new();
    let url = desk.stub.url();
    let nobody = Hub::new(url, None).unwrap();
    let stranger = Hub::new(url, Some("hf_unknown")).unwrap();
    let commit = NewCommit {
        branch: "main",
        parent: &"0".repeat(40),
        summary: "x",
        description: "",
        additions: &[small("x", b"x")],
    };
    let repository = &desk.repository;
    assert!(matches!(
        refusal(nobody.commit(repository, &commit)),
        Refusal::NoToken { .. }
    ));
    assert!(matches!(
        refusal(stranger.commit(repository, &commit)),
        Refusal::Unauthorized { .. }
    ));
    let moved = refusal(desk.hub.commit(repository, &commit));
    assert!(matches!(moved, Refusal::ParentMoved { .. }));
    let missing: Repository = "me/none".parse().unwrap();
    assert!(matches!(
        refusal(desk.hub.files(&missing, "main")),
        Refusal::NotFound { .. }
    ));
    assert!(matches!(
        refusal(desk.hub.files(repository, "none")),
        Refusal::NotFound { .. }
    ));
    desk.stub.restrict(&RepoId::model(REPO), false, true);
    let batch = nobody.has_object(repository, &"0".repeat(64), 1);
    assert!(matches!(
        refusal(batch),
        Refusal::NoToken { .. } | Refusal::Gated { .. }
    ));
}
