//! Requests are answered with the permissions of the client that sent them.

use zstn_tests::round_server::{Page, RoundServer};
use zstn_tests::stub_hub::{Fault, Role};

use super::*;

const TOKEN: &str = "hf_reader";
const OTHER: &str = "hf_other";

fn private() -> Site {
    let tokens = vec![
        (TOKEN.to_owned(), Role::Write),
        (OTHER.to_owned(), Role::Read),
    ];
    let options = Options {
        tokens,
        ..Options::default()
    };
    let site = site_with(options, &[]);
    site.hub.restrict(&model(), true, false);
    site
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn the_client_has_its_own_permissions_and_no_others() {
    let site = private();
    let token = bearer(TOKEN);
    assert_eq!(site.file(FIRST, &[&token]).status, 200);
    // The file has been fetched, decoded and listed already, but clients without
    // permission still get nothing.
    for headers in [&[][..], &["Authorization: Bearer wrong"]] {
        let answer = site.file(FIRST, headers);
        assert_eq!(answer.status, 401, "{headers:?}");
        let direct = hub_answer(&site, headers);
        assert_eq!(answer.header("x-error-code"), direct.header("x-error-code"));
        assert_eq!(
            answer.header("x-error-message"),
            direct.header("x-error-message")
        );
        for path in ["/api/models/me/model", "/api/models/me/model/tree/main"] {
            assert_eq!(get(site.gateway, path, headers).status, 401, "{path}");
        }
    }
    assert_eq!(site.file(FIRST, &[&token]).status, 200);
}

fn hub_answer(site: &Site, headers: &[&str]) -> Answer {
    let address = site
        .hub
        .url()
        .trim_start_matches("http://")
        .parse()
        .unwrap();
    get(
        address,
        "/me/model/resolve/main/model-00001-of-00002.zstn",
        headers,
    )
}

#[test]
fn a_gated_repository_says_so() {
    let site = private();
    site.hub.restrict(&model(), false, true);
    let refused = site.file(FIRST, &[&bearer(OTHER)]);
    assert_eq!(refused.status, 403);
    assert_eq!(refused.header("x-error-code"), Some("GatedRepo"));
}

/// The storage to which a hub redirects is on another server.
#[test]
fn tokens_go_to_the_hub_alone() {
    let site = private();
    assert_eq!(site.file(FIRST, &[&bearer(TOKEN)]).status, 200);
    let requests = site.hub.log();
    assert!(
        requests
            .iter()
            .any(|request| request.header("authorization").is_some())
    );
    let fetched = site.fetched();
    assert!(!fetched.is_empty());
    for request in fetched {
        assert_eq!(request.header("authorization"), None, "{}", request.path);
    }
}

/// While a cached answer is trusted, the hub is not contacted again for the same
/// client, but always for other clients.
#[test]
fn trust_is_for_one_client() {
    let site = private();
    let upstream = Location::url(site.hub.url());
    let trusting = gateway(&upstream).with_trust(Duration::from_secs(3600));
    let trusting = Site {
        gateway: run(trusting),
        ..site
    };
    assert_eq!(trusting.file(FIRST, &[&bearer(TOKEN)]).status, 200);
    trusting.hub.clear_log();
    assert_eq!(trusting.file(FIRST, &[&bearer(TOKEN)]).status, 200);
    assert_eq!(trusting.hub.log().len(), 0);
    assert_eq!(trusting.file(FIRST, &[]).status, 401);
    assert_eq!(trusting.file(FIRST, &[&bearer("other")]).status, 401);
    assert!(!trusting.hub.log().is_empty());
}

/// Forwarded requests carry the client's token; the gateway adds no token of its own.
#[test]
fn other_requests_are_passed_on_as_they_are() {
    let site = private();
    let who = get(site.gateway, "/api/whoami-v2", &[&bearer(TOKEN)]);
    assert_eq!(who.status, 200, "{}", who.text());
    assert_eq!(get(site.gateway, "/api/whoami-v2", &[]).status, 401);
    let hop = get(
        site.gateway,
        "/api/whoami-v2",
        &[
            &bearer(TOKEN),
            "Connection: x-secret",
            "X-Secret: 1",
            "X-Kept: 2",
        ],
    );
    assert_eq!(hop.status, 200);
    let last = site.hub.log().pop().unwrap();
    assert_eq!(last.header("x-secret"), None);
    assert_eq!(last.header("x-kept"), Some("2"));
}

/// A branch can move between listing it and fetching its bytes. The bytes of the second
/// commit must not be cached for the first one, because other repositories may have
/// files with the listed contents.
#[test]
fn a_branch_that_moves_does_not_spoil_what_others_read() {
    let site = site();
    site.hub.inject(Fault {
        path: "/resolve/".into(),
        changed: true,
        ..Fault::default()
    });
    let list = get(site.gateway, "/api/models/me/model/tree/main", &[]);
    assert_eq!(list.status, 502);
    let sentence = list.text();
    assert!(
        sentence.contains("listed with other contents"),
        "{sentence}"
    );
    // The other file may still be being checked.
    assert!(!site.has_fetched(), "{:?}", site.fetched());
    site.hub.heal();
    assert!(site.file(FIRST, &[]).body == site.originals[0].1);
}

/// A web page must not read more through the gateway than the gateway allows, whatever
/// the hub's CORS headers are.
#[test]
fn the_hub_does_not_say_which_pages_may_read() {
    let hub = RoundServer::start();
    let headers = vec!["Access-Control-Allow-Origin: *".to_owned()];
    let page = Page::FileWith(headers, b"{}".to_vec());
    hub.add("me/model/resolve/main/config.json", page);
    let gateway = run(gateway(&Location::url(&hub.url)));
    let path = "/me/model/resolve/main/config.json";
    let answer = get(gateway, path, &["Origin: https://evil.example"]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("access-control-allow-origin"), None);
}
