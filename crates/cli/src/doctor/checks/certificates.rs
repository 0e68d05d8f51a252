//! Certificates and their keys.

use super::{Facts, Finding, or_ok};
use crate::doctor::facts::{Files, Leaf, Link, Unusable};

const DAY: i64 = 24 * 3600;
/// From here on renewal is late, as the server's log says too.
const SOON: i64 = 14 * DAY;

pub(super) fn files(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "certificate.file";
    let sites = &facts.config.sites;
    if facts.config.listen.is_empty() {
        let how = "`listen` is empty: TLS ends before this server";
        return vec![Finding::ok(ID, how)];
    }
    let gets = !facts.config.tls.acme.is_empty() || sites.iter().any(|site| site.tls.acme);
    if facts.certificates.is_empty() && gets {
        let how = "the server gets its certificates by ACME (`hikyaku certs` shows them)";
        return vec![Finding::ok(ID, how)];
    }
    if facts.certificates.is_empty() {
        return vec![
            Finding::note(
                ID,
                "no certificate is given: the server makes a self-signed one",
            )
            .so("browsers warn, and use no HTTP/3")
            .mend("set tls.cert and tls.key, such as those of certbot (docs/deploy.md)"),
        ];
    }
    let finding = |files: &Files| match &files.leaf {
        Err(Unusable::Denied(why)) => Some(
            Finding::warn(ID, why)
                .so("the server does not start, if its user may not read the file either")
                .mend(format!(
                    "run the doctor as the server's user, or chgrp hikyaku {} and chmod g+r",
                    files.key.display()
                )),
        ),
        Err(Unusable::File(why)) => Some(
            Finding::fail(ID, why)
                .so("the server does not start")
                .mend("correct tls.cert and tls.key, or copy the files anew"),
        ),
        _ => None,
    };
    let found = facts.certificates.iter().filter_map(finding).collect();
    or_ok(found, ID, "the files can be read")
}

pub(super) fn keys(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "certificate.key";
    let finding = |files: &Files| match &files.leaf {
        Err(Unusable::Key(why)) => Some(
            Finding::fail(ID, why)
                .so("the server does not start")
                .mend(format!(
                    "use the key of this certificate; both have the same public key: openssl x509 \
                 -noout -pubkey -in {}, openssl pkey -pubout -in {}",
                    files.cert.display(),
                    files.key.display()
                )),
        ),
        _ => None,
    };
    of_readable(facts, finding, ID, "keys and certificates belong together")
}

pub(super) fn time(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "certificate.time";
    let now = facts.time.now;
    let finding = |files: &Files| {
        let leaf = files.leaf.as_ref().ok()?;
        let (path, left) = (files.cert.display(), leaf.until - now);
        let third = (leaf.until - leaf.from) / 3;
        let refused = "clients refuse the certificate";
        let renew = "certbot renew, and copy the files by its deploy hook (docs/deploy.md)";
        if now < leaf.from {
            let early = days(leaf.from - now);
            let finding = Finding::fail(ID, format!("{path} is valid only in {early}"));
            return Some(
                finding
                    .so(refused)
                    .mend("check this machine's clock: timedatectl"),
            );
        }
        if left < 0 {
            let finding = Finding::fail(ID, format!("{path} has expired {} ago", days(-left)));
            return Some(finding.so(refused).mend(renew));
        }
        (left < SOON.min(third)).then(|| {
            Finding::warn(ID, format!("{path} expires in {}", days(left)))
                .so("clients will refuse the certificate")
                .mend(renew)
        })
    };
    of_readable(facts, finding, ID, "the certificates are valid now")
}

pub(super) fn names(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "certificate.names";
    let finding = |files: &Files| {
        let leaf = files.leaf.as_ref().ok()?;
        let without = leaf.uncovered.join(", ");
        (!leaf.uncovered.is_empty()).then(|| {
            Finding::fail(
                ID,
                format!(
                    "the certificate of {} is for {}, and not for {without}",
                    files.of,
                    leaf.names.join(", ")
                ),
            )
            .so(format!("clients of {without} refuse the certificate"))
            .mend(format!(
                "certbot certonly --expand -d {}",
                leaf.uncovered.join(" -d ")
            ))
        })
    };
    of_readable(
        facts,
        finding,
        ID,
        "the certificates are for the sites' names",
    )
}

pub(super) fn chains(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "certificate.chain";
    let finding = |files: &Files| {
        let leaf = files.leaf.as_ref().ok()?;
        let path = files.cert.display();
        let order = |pair: &[Link]| pair[0].issuer != pair[1].subject;
        if let Some(pair) = leaf.chain.windows(2).find(|pair| order(pair)) {
            return Some(
                Finding::warn(
                    ID,
                    format!(
                        "in {path}, `{}` is not followed by its issuer `{}`",
                        pair[0].subject, pair[0].issuer
                    ),
                )
                .so("clients that put no chains in order refuse the certificate")
                .mend(format!(
                    "write {path} anew: the leaf, its issuer, and so on"
                )),
            );
        }
        unanchored(ID, files, leaf)
    };
    of_readable(
        facts,
        finding,
        ID,
        "the chains lead to a root that this machine knows",
    )
}

/// A chain that ends before a root.
fn unanchored(id: &'static str, files: &Files, leaf: &Leaf) -> Option<Finding> {
    let (path, last) = (files.cert.display(), leaf.chain.last()?);
    if last.subject == last.issuer && leaf.chain.len() == 1 {
        return Some(
            Finding::note(id, format!("{path} is self-signed"))
                .so("browsers warn, and use no HTTP/3")
                .mend("a certificate of an authority, such as Let's Encrypt (docs/deploy.md)"),
        );
    }
    (!leaf.is_anchored).then(|| {
        let issuer = &last.issuer;
        Finding::warn(id, format!("{path} ends before its issuer `{issuer}`, which is no root that this machine knows"))
            .so("clients that do not have the issuer's certificate refuse the server's: curl and apps rather than browsers")
            .mend(format!("append the intermediate certificate to {path}, as certbot's fullchain.pem has it"))
    })
}

pub(super) fn secrets(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "certificate.secret";
    let open = facts.certificates.iter().filter(|files| files.is_open);
    let finding = |files: &Files| {
        let key = files.key.display();
        Finding::warn(ID, format!("every user of this machine can read {key}"))
            .so("whoever has the key can pose as the server")
            .mend(format!("chmod o= {key}"))
    };
    let found = open.map(finding).collect();
    match facts.certificates.is_empty() {
        true => found,
        false => or_ok(found, ID, "the keys are private"),
    }
}

/// The findings on certificates, if there are any certificates that can be read.
fn of_readable(
    facts: &Facts,
    finding: impl Fn(&Files) -> Option<Finding>,
    id: &'static str,
    state: &str,
) -> Vec<Finding> {
    let found: Vec<_> = facts.certificates.iter().filter_map(finding).collect();
    match facts.certificates.iter().any(|files| files.leaf.is_ok()) {
        true => or_ok(found, id, state),
        false => found,
    }
}

fn days(seconds: i64) -> String {
    match seconds / DAY {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}
