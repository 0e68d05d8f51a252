//! A digest of the configuration, by which people see which edges of a fleet differ.

use sha2::{Digest, Sha256};

use super::Config;

impl Config {
    /// Sixteen hexadecimal digits, which are the same for equal configurations of one release. What names an
    /// edge (`fleet.name`, `fleet.pop`) and the admin token are not in it.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut config = self.clone();
        (config.fleet.name, config.fleet.pop) = (None, None);
        config.admin.token = None;
        let digest = Sha256::digest(format!("{config:?}"));
        let digits = digest.iter().take(8).map(|byte| format!("{byte:02x}"));
        digits.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Config;

    #[test]
    fn it_tells_what_is_configured_and_not_which_edge() {
        let config = |keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
            Config::load(None, &keys).unwrap().digest()
        };
        let plain = config(&[]);
        assert_eq!(plain.len(), 16);
        assert_eq!(
            plain,
            config(&["fleet.name=a", "fleet.pop=b", "admin.token=c"])
        );
        assert_ne!(plain, config(&["fleet.ttl=2h"]));
        assert_ne!(plain, config(&["policy.version=h2"]));
    }
}
