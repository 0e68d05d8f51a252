use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};

use super::*;

/// Writes a pair for `names`, whose key is of a kind.
fn pair(dir: &Path, name: &str, kind: &'static SignatureAlgorithm, names: &[&str]) -> Pair {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let key = KeyPair::generate_for(kind).unwrap();
    let made = CertificateParams::new(names).unwrap().self_signed(&key);
    let file = |end: &str| dir.join(format!("{name}.{end}"));
    let pair = Pair {
        cert: file("pem"),
        key: file("key"),
    };
    fs::write(&pair.cert, made.unwrap().pem()).unwrap();
    fs::write(&pair.key, key.serialize_pem()).unwrap();
    pair
}

#[test]
fn pairs_belong_together_or_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let pair = |name, kind, names: &[&str]| pair(dir.path(), name, kind, names);
    let ecdsa = &PKCS_ECDSA_P256_SHA256;
    let first = pair("first", ecdsa, &["a.example", "192.0.2.1", "b.example"]);
    let other = |name, kind, names| [first.clone(), pair(name, kind, names)];
    let same = ["b.example", "a.example", "192.0.2.1"];
    let cases = [
        ("same names", other("1", &PKCS_ED25519, &same), None),
        (
            "a name less",
            other("2", &PKCS_ED25519, &["a.example", "192.0.2.1"]),
            Some("same names, and are for a.example, 192.0.2.1 and a.example, b.example"),
        ),
        (
            "another name",
            other("3", &PKCS_ED25519, &["a.example", "192.0.2.1", "c.example"]),
            Some("for the same names"),
        ),
        (
            "keys of one kind",
            other("4", ecdsa, &same),
            Some("each key must be of another kind, and two are ECDSA"),
        ),
    ];
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    for (name, pairs, want) in cases {
        let second = pairs[1].cert.clone();
        let loaded = Certificate::load(Source::Files(pairs.to_vec()), &provider);
        match (loaded, want) {
            (Ok(loaded), None) => {
                let kinds: Vec<_> = loaded.descriptions().iter().map(|d| d.key).collect();
                assert_eq!(kinds, ["ecdsa", "ed25519"], "{name}");
            }
            (Err(error), Some(want)) => {
                let text = error.to_string();
                assert!(text.contains(want), "{name}: {text}");
                assert!(text.contains(second.to_str().unwrap()), "{name}: {text}");
            }
            (loaded, _) => panic!("{name}: {loaded:?}"),
        }
    }
}

#[test]
fn a_reload_takes_all_pairs_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let pair = |name, kind, names: &[&str]| pair(dir.path(), name, kind, names);
    let pairs = vec![
        pair("one", &PKCS_ECDSA_P256_SHA256, &["a.example"]),
        pair("two", &PKCS_ED25519, &["a.example"]),
    ];
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let certificate = Certificate::load(Source::Files(pairs), &provider).unwrap();
    let first = certificate.descriptions();
    pair("two", &PKCS_ED25519, &["b.example"]);
    certificate.reload(&provider).unwrap_err();
    assert_eq!(certificate.descriptions(), first);
    pair("one", &PKCS_ECDSA_P256_SHA256, &["b.example"]);
    certificate.reload(&provider).unwrap();
    let second = certificate.descriptions();
    assert!(certificate.covers("b.example") && !certificate.covers("a.example"));
    assert!(first.iter().zip(&second).all(|(one, other)| one != other));
    certificate.is_outdated();
    assert!(!certificate.is_outdated());
    fs::remove_file(dir.path().join("two.pem")).unwrap();
    assert!(certificate.is_outdated());
}

#[test]
fn a_certificate_by_acme_takes_the_place_of_one_of_our_own() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.json");
    let pair = pair(dir.path(), "a", &PKCS_ECDSA_P256_SHA256, &["a.example"]);
    let [chain, key] = [&pair.cert, &pair.key].map(|path| fs::read_to_string(path).unwrap());
    let record = serde_json::json!({
        "pairs": [{ "key_type": "ecdsa-p256", "key": key, "chain": chain }],
    });
    let (whole, provider) = (
        record.to_string(),
        rustls::crypto::aws_lc_rs::default_provider(),
    );
    let source = Source::Acme {
        names: vec!["a.example".to_owned(), "b.example".to_owned()],
        file: file.clone(),
    };
    let certificate = Certificate::load(source, &provider).unwrap();
    let own = certificate.description();
    assert!(certificate.covers("b.example") && certificate.is_self_signed());
    assert!(!certificate.is_outdated());
    // content of the file, and whether the certificate is still the server's own
    let steps = [
        ("half of it", &whole[..whole.len() / 2], true),
        ("no certificate yet", "{}", true),
        ("a certificate", &whole, false),
        ("half of it again", &whole[..whole.len() / 2], false),
        ("none any more", "{}", false),
    ];
    for (what, content, is_own) in steps {
        fs::write(&file, content).unwrap();
        certificate.reload(&provider).unwrap();
        assert_eq!(certificate.is_self_signed(), is_own, "{what}");
        assert_eq!(certificate.description() == own, is_own, "{what}");
    }
    assert_eq!(certificate.names(), ["a.example"]);
    assert!(certificate.is_outdated(), "the file has changed");
}
