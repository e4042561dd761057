//! The bill of materials of an artifact as CycloneDX 1.6 JSON. It contains neither a
//! time nor a random number, so that repeated builds give the same file.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::artifact::Artifact;
use super::package::Shipped;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the document.
pub fn json(artifact: &Artifact, shipped: &Shipped) -> Result<String> {
    let own = format!("{}@{VERSION}", artifact.purl);
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    let mut direct: Vec<String> = Vec::new();
    for (key, package) in shipped.packages() {
        let purl = package.purl();
        let mut component = json!({
            "type": "library",
            "bom-ref": purl,
            "name": package.name,
            "version": package.version,
            "purl": purl,
            // A slash is an outdated notation for OR.
            "licenses": [{ "expression": package.licence.replace(" / ", " OR ").replace('/', " OR ") }],
        });
        if let Some((algorithm, content)) = &package.digest {
            component["hashes"] = json!([{ "alg": algorithm, "content": content }]);
        }
        if !package.origin.is_empty() {
            component["externalReferences"] = json!([{ "type": "vcs", "url": package.origin }]);
        }
        components.push(component);
        let by_key = shipped.packages();
        let on: Vec<String> = by_key
            .filter(|(other, _)| package.depends.contains(*other))
            .map(|(_, other)| other.purl())
            .collect();
        dependencies.push(json!({ "ref": purl, "dependsOn": on }));
        if shipped.direct.contains(key) {
            direct.push(purl);
        }
    }
    dependencies.push(json!({ "ref": own, "dependsOn": direct }));
    for runtime in &shipped.runtimes {
        components.push(json!({
            "type": "library",
            "name": runtime.name,
            "licenses": [{ "expression": runtime.licence }],
            "externalReferences": [{ "type": "website", "url": runtime.origin }],
        }));
    }
    let document: Value = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": artifact.kind,
                "bom-ref": own,
                "name": artifact.name,
                "version": VERSION,
                "description": artifact.description,
                "purl": own,
                "licenses": [{ "license": { "id": "Apache-2.0" } }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    let text = serde_json::to_string_pretty(&document).context("an SBOM is always JSON")?;
    Ok(text + "\n")
}
