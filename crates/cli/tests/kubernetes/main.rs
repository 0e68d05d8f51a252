//! The manifests in `conf/kubernetes`: Kubernetes' schemas accept them, and hikyaku their configuration.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hikyaku_testkit::{certificate, hikyaku, skip, this_test};

const MANIFESTS: [&str; 4] = [
    "behind-balancer.yaml",
    "edges.yaml",
    "secrets.yaml",
    "store.yaml",
];

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// A program of the environment that `scripts/setup.sh test` makes.
fn program(name: &str) -> Option<Command> {
    let path = repository("build/kubernetes/bin").join(name);
    if path.exists() {
        return Some(Command::new(path));
    }
    skip(
        &this_test(),
        &format!("{name} is missing; `bash scripts/setup.sh test` installs it"),
    );
    None
}

fn text(output: &Output) -> String {
    let streams = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&streams).into_owned()
}

#[test]
fn manifests_are_valid() {
    let mut found: Vec<String> = fs::read_dir(repository("conf/kubernetes"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, MANIFESTS);
    for name in MANIFESTS {
        let Some(mut validate) = program("kubernetes-validate") else {
            return;
        };
        let manifest = repository("conf/kubernetes").join(name);
        let output = validate.arg("--strict").arg(&manifest).output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output));
        // Of each document there is a line.
        let documents = fs::read_to_string(manifest)
            .unwrap()
            .matches("\nkind: ")
            .count();
        assert_eq!(
            text(&output).matches(" passed ").count(),
            documents,
            "{name}"
        );
    }
}

#[test]
fn their_configurations_are_accepted() {
    for name in ["behind-balancer.yaml", "edges.yaml"] {
        let Some(mut python) = program("python") else {
            return;
        };
        let script = repository("crates/cli/tests/kubernetes/configmap.py");
        let manifest = repository("conf/kubernetes").join(name);
        let output = python.arg("-B").arg(script).arg(manifest).output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output));
        let toml = String::from_utf8(output.stdout).unwrap();

        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for part in ["tls", "fleet", "state"] {
            fs::create_dir(path(part)).unwrap();
        }
        let (chain, key) = certificate();
        fs::write(path("tls/tls.crt"), chain).unwrap();
        fs::write(path("tls/tls.key"), key).unwrap();
        secret(&path("fleet/keys"), &"0123456789abcdef".repeat(4));
        secret(&path("fleet/password"), "password");
        let toml = toml
            .replace("/etc/hikyaku", directory.path().to_str().unwrap())
            .replace("/var/lib/hikyaku", path("state").to_str().unwrap())
            .replace("listen = [443]", "listen = [0]");
        let config = path("edge.toml");
        fs::write(&config, toml).unwrap();
        let output = hikyaku(&["check", "--config", config.to_str().unwrap()]);
        assert!(output.status.success(), "{name}: {}", text(&output));
    }
}

/// As a Secret's files are: for the owner alone.
fn secret(path: &Path, content: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap();
}
