//! Errors for requests that a hub refuses.

use zstn::Error;
use zstn_hub::hub::{Hub, NewCommit, Permission, Refusal, Repository};
use zstn_tests::stub_hub::{Fault, RepoId};

use super::Desk;
use super::desk::{REPO, small, weights};

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    let error = result.unwrap_err();
    let refusal = Refusal::in_error(&error).cloned();
    refusal.unwrap_or_else(|| panic!("{error}"))
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

#[test]
fn a_refusal_names_the_permission_that_is_missing() {
    let desk = Desk::new();
    let nobody = Hub::new(desk.stub.url(), None).unwrap();
    desk.stub.restrict(&RepoId::model(REPO), true, false);
    let sentence = |result: zstn::Result<()>| refusal(result).to_string();
    for status in [401, 403] {
        desk.stub.inject(Fault {
            path: "/api/models/".into(),
            status: Some(status),
            ..Fault::default()
        });
        let hub = if status == 401 { &nobody } else { &desk.hub };
        let read = sentence(hub.files(&desk.repository, "main").map(drop));
        assert!(read.contains("read the repository"), "{read}");
        let commit = NewCommit {
            branch: "main",
            parent: &"0".repeat(40),
            summary: "x",
            description: "",
            additions: &[small("x", b"x")],
        };
        let written = sentence(hub.commit(&desk.repository, &commit).map(drop));
        assert!(written.contains("write to the repository"), "{written}");
        desk.stub.heal();
    }
    assert_eq!(Permission::Read.to_string(), "read");
}

/// The answer to a commit can be lost after the hub made the commit.
#[test]
fn a_commit_whose_answer_is_lost_is_found() {
    let desk = Desk::new();
    let large = desk.large("a.safetensors", &weights("a", 1));
    let additions = [large, small("notes.txt", b"x")];
    let commit = |parent: &str| {
        desk.hub.commit(
            &desk.repository,
            &NewCommit {
                branch: "main",
                parent,
                summary: "Add a file",
                description: "More about it.",
                additions: &additions,
            },
        )
    };
    let lose = |times, no_history| {
        desk.stub.inject(Fault {
            path: "/commit/".into(),
            times: Some(times),
            lost: Some(503),
            ..Fault::default()
        });
        if no_history {
            desk.stub.inject(Fault {
                path: "/commits/".into(),
                status: Some(404),
                ..Fault::default()
            });
        }
    };
    for no_history in [false, true] {
        let parent = desk.head();
        lose(1, no_history);
        let made = commit(&parent).unwrap();
        desk.stub.heal();
        assert_eq!(made, desk.head());
        assert_ne!(made, parent);
    }
    // A commit by another client is not mistaken for the worker's own.
    let parent = desk.head();
    let other = desk.commit(&[small("notes.txt", b"other")]);
    lose(1, false);
    assert!(matches!(
        refusal(commit(&parent)),
        Refusal::ParentMoved { .. }
    ));
    desk.stub.heal();
    assert_eq!(desk.head(), other);
}
