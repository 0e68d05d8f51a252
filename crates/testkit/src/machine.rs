//! The configurations of `conf/examples`, with directories and ports of a test.

use std::fs;
use std::path::PathBuf;

use super::{Server, Site};

/// The directory of the examples.
pub const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/examples");

/// Names of the certificate, by which a server finds that it has one for its sites.
const NAMES: [&str; 6] = [
    "localhost",
    "example.org",
    "www.example.org",
    "app.example.org",
    "app.example.net",
    "*.apps.example.org",
];

/// A machine with the directories, the certificates and the users that configurations name. All
/// are below a directory of its own.
pub struct Machine {
    site: Site,
}

impl Machine {
    /// Makes a machine with these files, such as `srv/www/index.html`.
    pub fn new(files: &[(&str, &[u8])]) -> Self {
        let site = Site::new(files);
        let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned)).unwrap();
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        for name in ["fullchain.pem", "example.org.pem", "app.pem", "site.pem"] {
            site.write(&format!("etc/{name}"), cert.as_bytes());
        }
        for name in ["privkey.pem", "example.org.key", "app.key", "site.key"] {
            site.write(&format!("etc/{name}"), key.as_bytes());
        }
        // The password is `secret`.
        let users = b"ada:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
        site.write("etc/users", users);
        fs::create_dir_all(format!("{}/log", site.path())).unwrap();
        fs::create_dir_all(format!("{}/run", site.path())).unwrap();
        Self { site }
    }

    /// The absolute path of a file of this machine.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.site.path())
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: &[u8]) {
        self.site.write(name, content);
    }

    /// The text of an example of any server, with this machine's directories and with `replaced`.
    /// The text has to have each of these words.
    #[track_caller]
    pub fn example(&self, name: &str, replaced: &[(&str, &str)]) -> String {
        let mut text = fs::read_to_string(format!("{EXAMPLES}/{name}")).unwrap();
        for (from, to) in replaced {
            assert!(text.contains(from), "{name} has no `{from}`");
            text = text.replace(from, to);
        }
        for (from, to) in [
            ("/srv/", "srv/"),
            ("/run/", "run/"),
            ("/etc/hikyaku/", "etc/"),
            ("/etc/nginx/users", "etc/users"),
            ("/etc/ssl/", "etc/"),
            ("/etc/caddy/", "etc/"),
            ("/var/lib/hikyaku", "state"),
            ("/var/log/hikyaku/", "log/"),
            ("/var/log/nginx/", "log/nginx-"),
            ("/var/log/caddy/", "log/caddy-"),
        ] {
            // Paths alone: neither parts of longer ones nor those of URLs.
            for before in ["\"", " ", ":", "/"] {
                let to = format!("{before}{}", self.path(to));
                text = text.replace(&format!("{before}{from}"), &to);
            }
        }
        text
    }

    /// Writes a configuration of hikyaku with this machine's directories and free ports. Returns its
    /// path.
    #[track_caller]
    pub fn configure(&self, name: &str, replaced: &[(&str, &str)]) -> String {
        let text = self
            .example(name, replaced)
            .replace("listen = [443]", "listen = \"127.0.0.1:0\"")
            .replace("listen = [80]", "listen = \"127.0.0.1:0\"");
        let path = PathBuf::from(self.path(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Starts hikyaku with an example.
    #[track_caller]
    pub fn start(&self, name: &str, replaced: &[(&str, &str)]) -> Server {
        Server::start(&["--config", &self.configure(name, replaced)])
    }
}
