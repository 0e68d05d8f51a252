use super::*;

fn spec(figure: &str) -> Result<Spec, String> {
    let text = format!(
        r#"
        title = "t"
        question = "q"
        backend = "link"
        repeats = 1
        timeout = "1s"
        [axes]
        rate = ["1Mbps", "2Mbps"]
        loss = ["0%", "1%"]
        [workload]
        files = [{{ name = "f", size = "1MB" }}]
        [[arm]]
        name = "h2"
        [[arm]]
        name = "adaptive"
        [[figure]]
        {figure}
        "#
    );
    Spec::parse("test", &text, false).map_err(|error| error.to_string())
}

fn read(figure: &str) -> Result<Figure, String> {
    let figures = Figure::all(&spec(figure)?).map_err(|error| error.to_string())?;
    Ok(figures.into_iter().next().unwrap())
}

#[test]
fn every_kind_is_read() {
    let cases = [
        "kind = 'heatmap'\ntitle = 't'\nx = 'rate'\ny = 'loss'\ngain = ['h2', 'adaptive']",
        "kind = 'zero-lines'\ntitle = 't'\nx = 'rate'\ny = 'loss'\nby = 'rate'\ngain = ['h2', 'adaptive']",
        "kind = 'lines'\ntitle = 't'\nx = 'rate'\nby = 'loss'\nlog_x = true\npanel = ['loss']",
        "kind = 'box'\ntitle = 't'\npanel = 'loss'\narms = ['h2']",
        "kind = 'cdf'\ntitle = 't'\nwhere = { loss = ['0%', '1%'], rate = '1Mbps' }",
        "kind = 'series'\ntitle = 't'\nseries = 'cwnd_bytes'\nrepeat = 'median'",
        "kind = 'table'\ntitle = 't'\nshare = { label = 'http', value = '3' }\ngoal = { load_ms = '<= 2s' }",
        "kind = 'choice'\ntitle = 't'\nadaptive = ['adaptive']\ngoal = { excess_worst = '<= 2%' }",
        "kind = 'sessions'\ntitle = 't'\nadaptive = ['adaptive']\nfixed = ['h2']\ngoal.until_worst = '<= 2'",
        "kind = 'ratio'\ntitle = 't'\nof = ['h2']\ngoal = { ratio_least = '>= 95%', ratio_most = '<= 103%' }",
        "kind = 'regret'\ntitle = 't'\nadaptive = ['adaptive']\nacross = 'rate'\ngoal = { regret_p95 = '<= 10%' }",
    ];
    for case in cases {
        read(case).unwrap_or_else(|why| panic!("{case}: {why}"));
    }
}

#[test]
fn missing_keys_have_defaults() {
    let figure = read("kind = 'choice'\ntitle = 't'\nadaptive = ['adaptive']").unwrap();
    assert_eq!(figure.common.metric, "load_ms");
    let Kind::Choice(choice) = figure.kind else {
        panic!("{:?}", figure.kind)
    };
    assert_eq!(
        (choice.label.as_str(), choice.value.as_str(), choice.differ),
        ("http", "3", 5.0)
    );
}

#[test]
fn mistakes_are_named() {
    let cases = [
        ("title = 't'", "missing field `kind`"),
        ("kind = 'cdf'", "missing field `title`"),
        ("kind = 'pie'\ntitle = 't'", "unknown variant `pie`"),
        (
            "kind = 'cdf'\ntitle = 't'\nlogx = true",
            "unknown field `logx`, expected `panel` or `log_x`",
        ),
        ("kind = 'cdf'\ntitle = 't'\nx = 'rate'", "unknown field `x`"),
        (
            "kind = 'lines'\ntitle = 't'\nx = 'delay'",
            "unknown variant `delay`",
        ),
        (
            "kind = 'lines'\ntitle = 't'\nx = 'queue'",
            "does not sweep `queue`; its axes: rate, loss",
        ),
        (
            "kind = 'cdf'\ntitle = 't'\nwhere = { loss = '2%' }",
            "the axis `loss` has no value `2%`; it has 0%, 1%",
        ),
        (
            "kind = 'cdf'\ntitle = 't'\narms = ['h3']",
            "there is no arm `h3`; the experiment has h2, adaptive",
        ),
        (
            "kind = 'choice'\ntitle = 't'\nadaptive = ['clever']",
            "there is no arm `clever`",
        ),
        (
            "kind = 'cdf'\ntitle = 't'\npaper_values = [{ cell = { udp = 'drop' }, value = 1 }]",
            "`paper_values`: the experiment does not sweep `udp`",
        ),
        (
            "kind = 'choice'\ntitle = 't'\nadaptive = ['adaptive']\ngoal = { excess = '<= 2%' }",
            "`goal.excess`: there is no such result; expected excess_worst",
        ),
        (
            "kind = 'choice'\ntitle = 't'\nadaptive = ['adaptive']\ngoal = { excess_worst = '2%' }",
            "`2%` is no bound",
        ),
        (
            "kind = 'cdf'\ntitle = 't'\ngoal = { load_ms = '<= 2s' }",
            "`goal.load_ms`: only choice",
        ),
        (
            "kind = 'series'\ntitle = 't'\nseries = 's'\nrepeat = 'all'",
            "expected a number from 0 or \"median\"",
        ),
    ];
    for (figure, want) in cases {
        let why = read(figure).expect_err(figure);
        assert!(why.contains(want), "{figure}: {why}");
        assert!(why.contains("figure 1"), "{why}");
    }
}
