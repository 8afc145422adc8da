//! Text forms: what's written is read again, and errors tell the line.

use std::collections::BTreeSet;

use kernel_registry_schedule::{
    Chance, Choice, Departure, Entry, Kind, ParseError, Party, Plan, Point, Reason, Record,
};

const PARTIES: [Party; 6] = [
    Party::Host(0),
    Party::Stream(u32::MAX),
    Party::Room(2),
    Party::Block { grid: 1, block: 3 },
    Party::Threads { grid: 1, block: 3, warp: 0, lane: 16 },
    Party::Threads { grid: u32::MAX, block: u32::MAX, warp: 31, lane: 31 },
];

const NAMES: [&str; 10] = [
    "saxpy",
    "",
    " ",
    " two  spaces ",
    "tab\tand\nnewline\r",
    "back\\slash\\n",
    "# comment",
    "ends in return\r",
    "strict",
    "前 ∑ \u{85}\u{2028}\0",
];

fn points() -> BTreeSet<Point> {
    NAMES.iter().zip(0..).map(|(kernel, line)| Point { kernel: (*kernel).to_owned(), line }).collect()
}

#[test]
fn parties() {
    for party in PARTIES {
        assert_eq!(party.to_string().parse(), Ok(party));
    }
    assert_eq!(Party::Room(2).to_string(), "stream 2 in little room");
    let wrong = [
        "",
        "host",
        "host 00",
        "host +1",
        "host -1",
        "host 4294967296",
        " host 0",
        "host 0 ",
        "host  0",
        "stream 2 in room",
        "grid 1 block 3 warp 0",
        "Host 0",
    ];
    for text in wrong {
        let error = text.parse::<Party>().unwrap_err();
        assert_eq!(error.text, text);
    }
}

fn plan() -> Plan {
    let departures = PARTIES.windows(2).zip(0..);
    Plan {
        departures: departures
            .map(|(pair, step)| Departure { before: pair[0], step, run: pair[1] })
            .collect(),
        chance: Some(Chance { seed: u64::MAX, depth: 3, length: 1_000 }),
        points: points(),
        strict: true,
    }
}

#[test]
fn plans() {
    for plan in [Plan::default(), plan(), Plan { strict: false, chance: None, ..plan() }] {
        assert_eq!(plan.to_string().parse(), Ok(plan));
    }
    let departure = plan().departures[3];
    assert_eq!(departure.to_string(), "before grid 1 block 3 step 3 run grid 1 block 3 warp 0 lane 16");
    assert_eq!(departure.to_string().parse(), Ok(departure));
}

#[test]
fn comments_blank_lines_and_windows() {
    let comments = ["Fails: deadlock\nstrict\rstrict".to_owned(), String::new()];
    let file = Plan { strict: false, ..plan() }.to_file(&comments);
    assert!(
        file.starts_with(
            "# kernel-registry schedule 1\n# Fails: deadlock\n# strict\n# strict\n#\nbefore host 0 step 0 run"
        ),
        "{file}"
    );
    let file = file.replace('\n', "\r\n") + "\r\n  \r\n# more\r\nstrict";
    assert_eq!(file.parse(), Ok(plan()));
}

#[test]
fn plans_with_errors() {
    let error = |text: &str| text.parse::<Plan>().unwrap_err();
    let header = error("# kernel-registry schedule 2\nstrict\n");
    assert_eq!(
        header,
        ParseError { line: 1, reason: Reason::Header("# kernel-registry schedule 2".to_owned()) }
    );
    assert_eq!(error("").line, 1);
    let line = |line: &str| {
        let error = error(&format!("# kernel-registry schedule 1\n# comment\n\n{line}\nstrict\n"));
        assert_eq!(error.line, 4, "{line}");
        error.reason
    };
    let form = |text: &str| assert_eq!(line(text), Reason::Form(text.to_owned()));
    form("sctrict");
    form("strict ");
    form("before host 0 run host 1");
    form("chance seed 1 depth 3");
    form("chance seed 1 depth 3 length 4 more 5");
    form("point 3");
    assert_eq!(line("point -3 kernel"), Reason::Number("-3".to_owned()));
    assert_eq!(line("chance seed 1 depth 4294967296 length 1"), Reason::Number("4294967296".to_owned()));
    assert_eq!(line("before host 0 step x run host 1"), Reason::Number("x".to_owned()));
    assert_eq!(line("point 3 a\\x"), Reason::Escape("a\\x".to_owned()));
    assert_eq!(line("point 3 a\\"), Reason::Escape("a\\".to_owned()));
    assert!(
        matches!(line("before host 0 step 1 run guest 1"), Reason::Party(error) if error.text == "guest 1")
    );
    let chance = "chance seed 1 depth 3 length 4";
    let twice = error(&format!("# kernel-registry schedule 1\n{chance}\n{chance}\n"));
    assert_eq!((twice.line, twice.reason), (3, Reason::Repeated("chance")));
    assert_eq!(error("# kernel-registry schedule 1\nmore").to_string(), "line 2: unknown line `more`");
}

fn choice(party: Party) -> Choice {
    Choice { party, usual: PARTIES[0], step: 4, options: PARTIES.to_vec() }
}

fn entries() -> Vec<Entry> {
    let choices = PARTIES.iter().map(|party| Entry::Choice(choice(*party)));
    let steps =
        NAMES.iter().zip(PARTIES).map(|(text, party)| Entry::Step { party, text: (*text).to_owned() });
    let outcomes = Kind::ALL
        .iter()
        .flat_map(|kind| NAMES.iter().map(|text| Entry::Outcome { kind: *kind, text: (*text).to_owned() }));
    choices.chain(steps).chain(points().into_iter().map(Entry::Point)).chain(outcomes).collect()
}

#[test]
fn entries_are_lines() {
    for entry in entries() {
        let line = entry.to_string();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(line.parse(), Ok(entry), "{line}");
    }
}

#[test]
fn records_contain_all_entries() {
    let text: String = entries().iter().map(|entry| format!("{entry}\n")).collect();
    let record = Record::read(&text).unwrap();
    assert_eq!(record.choices, PARTIES.map(choice));
    assert_eq!(record.points, points());
    assert_eq!(record.parties, PARTIES.len());
    assert_eq!(record.steps.len(), PARTIES.len());
    assert!(record.steps.iter().all(|step| step.choices == PARTIES.len()));
    // Not the first outcome, which is that the run passed, but the first failure.
    assert_eq!(record.outcome, Some((Kind::Deadlock, NAMES[0].to_owned())));
    assert_eq!(record.departures().len(), PARTIES.len() - 1);
}

#[test]
fn truncated_records_end_with_their_last_whole_line() {
    let all = entries();
    let text: String = all.iter().map(|entry| format!("{entry}\n")).collect();
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        let whole = text[..end].matches('\n').count();
        let expected: String = all[..whole].iter().map(|entry| format!("{entry}\n")).collect();
        assert_eq!(Record::read(&text[..end]), Record::read(&expected), "{end}");
        assert!(Record::read(&text[..end]).is_ok(), "{end}");
    }
    assert_eq!(Record::read("").unwrap().kind(), Kind::Crashed);
}

#[test]
fn records_with_errors() {
    let error = |line: &str| {
        let error = Record::read(&format!("outcome\tpassed\t\n\n{line}\n")).unwrap_err();
        assert_eq!(error.line, 3);
        error.reason
    };
    let form = |line: &str| assert_eq!(error(line), Reason::Form(line.to_owned()));
    form("outcome");
    form("outcome\tpassed");
    form("outcome\tpassed\ta\tb");
    assert_eq!(error("outcome\tPassed\t"), Reason::Kind("Passed".to_owned()));
    assert_eq!(error("point\tx\tkernel"), Reason::Number("x".to_owned()));
    for wrong in [
        "host 0\t0\thost 0\thost 0",
        "host 0\t0\thost 2\thost 0\thost 1",
        "host 2\t0\thost 0\thost 0\thost 1",
    ] {
        let line = format!("choice\t{wrong}");
        assert_eq!(error(&line), Reason::Choice(line.clone()));
    }
}
