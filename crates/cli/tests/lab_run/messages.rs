//! Messages of the command without a measurement.

use super::*;

#[test]
fn faults_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = write("good.toml", SLOW);
    let axis = write(
        "axis.toml",
        &format!("{SLOW}\n[axes]\nlatency = [\"1ms\"]\n"),
    );
    let unit = write("unit.toml", &SLOW.replace("4Mbps", "4Mb"));
    let key = write("key.toml", &format!("{SLOW}\nverison = \"h2\"\n"));
    let fleet = write(
        "fleet.toml",
        &SLOW.replace("[workload]", "[workload]\nkind = \"fleet\""),
    );
    let simulated = write(
        "simulated.toml",
        &SLOW.replace("\"link\"", "\"simulation\""),
    );
    let cases: &[(&[&str], &str)] = &[
        (&["nothing"], "there is no experiment `nothing`"),
        (&["/nowhere.toml"], "reading the experiment /nowhere.toml"),
        (&[&axis], "unknown variant `latency`"),
        (&[&unit], "reading a rate from `4Mb`: unknown unit"),
        (&[&key], "unknown field `verison`"),
        (
            &[&fleet],
            "arm `h2`: `workload.kind = \"fleet\"` needs `fleet`",
        ),
        (&[&simulated], "run it by `hikyaku lab sim`"),
        (&[&good, "--arms", "h4"], "there is no arm `h4`"),
        (
            &[&good, "model", "--out", "x"],
            "`--out` is the place of one experiment",
        ),
        (&[&good, &good], "is named twice"),
        (&[&good, "--quick"], "there is no [quick] part"),
        (&[&good, "--lanes", "0"], "0 is not in 1..=250"),
    ];
    for (arguments, want) in cases {
        let output = lab(&["run"])
            .args(*arguments)
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(want), "{arguments:?}: {said}");
        assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    }
}

/// The whole experiment is checked before its first session, and nothing is left where one can't be run.
#[test]
fn faults_of_later_arms_are_reported_at_once() {
    let test = "faults_of_later_arms_are_reported_at_once";
    let Some(_guard) = alone(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let arm = "[[arm]]\nname = \"last\"\nhttp = \"2\"\nset = { \"policy.verison\" = \"h2\" }\n";
    let cases = [
        (
            format!("{SLOW}\n{arm}"),
            "the settings of arm `last`: in `--set policy.verison=h2`: unknown field `verison`",
        ),
        (
            SLOW.replace("200kB", "10TB"),
            "has 10TB; the lab makes files of at most 4 GB",
        ),
    ];
    for (text, want) in cases {
        let file = directory.path().join("experiment.toml");
        fs::write(&file, text).unwrap();
        let out = directory.path().join("out");
        let mut command = lab(&["run"]);
        let output = command.arg(&file).arg("--out").arg(&out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(want), "{said}");
        assert!(!output.status.success());
        assert!(!out.exists(), "{want}");
    }
}

#[test]
fn the_list_names_every_experiment() {
    let output = lab(&["list", "--json"]).output().unwrap();
    let lines: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: BTreeSet<&str> = lines
        .iter()
        .map(|line| line["name"].as_str().unwrap())
        .collect();
    for name in [
        "model",
        "version-sweep",
        "conns-rtt",
        "udp-blackhole",
        "fleet-visit",
        "fleet-outage",
        "fairness",
        "gain",
        "peers",
    ] {
        assert!(names.contains(name), "{name}");
    }
    let table = text(&lab(&["list"]).output().unwrap());
    assert_eq!(table.lines().count(), names.len());
}
