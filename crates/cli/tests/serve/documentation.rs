//! A whole site that others have made: Debian's documentation of Python, whose scripts are links to other
//! packages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::{Server, has};

const ROOT: &str = "/usr/share/doc/python3/html";

#[test]
fn all_links_of_debians_python_documentation_work() {
    let test = "all_links_of_debians_python_documentation_work";
    if !has(test, "curl") || !has(test, "/usr/share/doc/python3/html/index.html") {
        return;
    }
    let trusted = "files.trusted_roots=[\"/usr/share\"]";
    let server = Server::start(&[ROOT, "--set", trusted]);
    let paths = paths_of_all_links();
    assert!(paths.len() > 500, "{} links", paths.len());
    let urls: Vec<_> = paths
        .iter()
        .map(|path| format!("url = {}\noutput = /dev/null\n", server.url(path)))
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("urls");
    fs::write(&config, urls.concat()).unwrap();
    let config = config.to_str().unwrap();
    let output = curl(&[
        "--http2",
        "-w",
        "%{http_code} %{url_effective}\n",
        "-K",
        config,
    ]);
    let output = String::from_utf8(output.stdout).unwrap();
    let mut answered = 0;
    for (line, path) in output.lines().zip(&paths) {
        let is_there = Path::new(ROOT).join(path.trim_start_matches('/')).is_file();
        let want = if is_there { "200 " } else { "404 " };
        assert!(line.starts_with(want), "{line}");
        assert!(line.ends_with(path), "{line}");
        answered += 1;
    }
    assert_eq!(answered, paths.len());
    let script = "/_static/jquery.js";
    assert!(paths.contains(script));
    assert!(
        fs::symlink_metadata(format!("{ROOT}{script}"))
            .unwrap()
            .is_symlink()
    );
}

/// The paths of all files that pages link to.
fn paths_of_all_links() -> BTreeSet<String> {
    let (mut paths, mut directories) = (BTreeSet::new(), vec![PathBuf::from(ROOT)]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "html")
            {
                let page = fs::read_to_string(&path).unwrap();
                let from = directory.strip_prefix(ROOT).unwrap();
                paths.extend(links(&page).filter_map(|link| resolve(from, link)));
            }
        }
    }
    paths
}

/// The values of `href` and `src`.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let after = ["href=\"", "src=\""]
        .into_iter()
        .flat_map(|name| page.split(name).skip(1));
    after.filter_map(|rest| rest.split('"').next())
}

/// The path of a link of a page in a directory; `None` for one to elsewhere.
fn resolve(from: &Path, link: &str) -> Option<String> {
    let link = link.split(['#', '?']).next()?;
    let is_elsewhere = link.is_empty() || link.contains(':') || link.starts_with('/');
    if is_elsewhere || link.contains(['&', '%', ' ', '\\']) {
        return None;
    }
    let mut parts: Vec<&str> = from.iter().map(|part| part.to_str().unwrap()).collect();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}
