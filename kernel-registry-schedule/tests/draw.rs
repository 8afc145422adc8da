//! Drawings of runs.

mod toy;

use kernel_registry_schedule::{Party, Plan, Record, draw};

fn names(party: Party) -> String {
    party.to_string()
}

/// Checks that tags are closed in order, and that text has no raw markup.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{text}");
        for entity in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|known| entity.starts_with(known));
            assert!(known, "{entity}");
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        match tag.strip_prefix('/') {
            Some(tag) => assert_eq!(open.pop(), Some(tag)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let forbidden = |char: char| char.is_control() && char != '\n';
    assert!(!svg.contains(forbidden));
}

fn count(svg: &str, class: &str) -> usize {
    svg.matches(&format!("<rect class=\"{class}\"")).count()
}

/// Returns the texts of a class, in order.
fn texts<'a>(svg: &'a str, class: &str) -> Vec<&'a str> {
    let start = format!("<text class=\"{class}\"");
    let lines = svg.lines().filter(|line| line.starts_with(&start));
    lines.map(|line| line.split(['<', '>']).nth(2).unwrap()).collect()
}

#[test]
fn steps_and_departures() {
    let plan = "# kernel-registry schedule 1\nbefore host 0 step 1 run host 1\n".parse().unwrap();
    let svg = draw("Lost update", &toy::lost_update().run(&plan), &names);
    assert_well_formed(&svg);
    assert_eq!((count(&svg, "run"), count(&svg, "departure")), (2, 1));
    assert_eq!(texts(&svg, "accent"), ["instead of host 0"]);
    assert_eq!(texts(&svg, "text"), ["operation 0", "operation 0", "operation 1", "operation 1"]);
    assert_eq!(texts(&svg, "title"), ["Lost update", "host 0", "host 1", "failed"]);
    assert_eq!(svg.matches("<line class=\"turn\"").count(), 1);
    assert_eq!(svg.matches("<line class=\"flow\"").count(), 1);
}

#[test]
fn hostile_text() {
    let hostile = "<script>&\"']]>\u{0}\u{1b}\u{85}\u{ffff}";
    let mut record = toy::lost_update().run(&Plan::default());
    record.steps[0].text = hostile.to_owned();
    record.outcome.as_mut().unwrap().1 = hostile.repeat(30);
    let svg = draw(hostile, &record, &|_| hostile.to_owned());
    assert_well_formed(&svg);
    assert!(!svg.contains("<script"));
    assert!(svg.contains("&lt;script&gt;&amp;&quot;&#39;]]&gt;\u{fffd}"));
    assert!(texts(&svg, "outcome").len() > 5);
}

#[test]
fn many_steps_are_counted() {
    let text = |count: usize| -> Vec<String> {
        let mut text: String = (0..count).map(|step| format!("step\thost 0\tstore {step}\n")).collect();
        text.push_str("outcome\tpassed\t\n");
        let svg = draw("", &Record::read(&text).unwrap(), &names);
        assert_eq!(count_boxes(&svg), 1);
        texts(&svg, "faint").into_iter().map(str::to_owned).collect()
    };
    assert!(text(5).is_empty());
    assert_eq!(text(6), ["… 2 more"]);
    assert_eq!(text(27), ["… 23 more"]);
    let record: String = (0..27).map(|step| format!("step\thost 0\tstore {step}\n")).collect();
    let svg = draw("", &Record::read(&record).unwrap(), &names);
    assert_eq!(texts(&svg, "text"), ["store 0", "store 1", "store 2", "store 26"]);
}

fn count_boxes(svg: &str) -> usize {
    count(svg, "run") + count(svg, "departure")
}

#[test]
fn records_without_steps() {
    let mut record = toy::lost_update().run(&Plan::default());
    record.steps.clear();
    let svg = draw("", &record, &names);
    assert_well_formed(&svg);
    assert_eq!(texts(&svg, "faint"), ["2 choices"]);
    assert_eq!(count_boxes(&draw("", &Record::default(), &names)), 0);
}

#[test]
fn lanes_are_ordered_and_little_room_has_none() {
    let parties = [
        "grid 0 block 0 warp 0 lane 0",
        "stream 1 in little room",
        "grid 0 block 1",
        "host 1",
        "grid 0 block 0",
    ];
    let text: String = parties.iter().map(|party| format!("step\t{party}\tx\n")).collect();
    let svg = draw("t", &Record::read(&text).unwrap(), &names);
    assert_eq!(
        texts(&svg, "title"),
        ["t", "host 1", "stream 1", "grid 0 block 0", "grid 0 block 0 warp 0 lane 0", "grid 0 block 1"]
    );
    assert_eq!(texts(&svg, "faint"), ["in little room"]);
}

#[test]
fn of_many_rows_the_ends_and_departures_are_drawn() {
    // Rows 0 to 999, of which row 500 is a departure.
    let mut text = String::new();
    for row in 0..1_000 {
        if row == 500 {
            text.push_str("choice\thost 1\t3\thost 0\thost 0\thost 1\n");
        }
        text.push_str(&format!("step\thost {}\trow {row}\n", row % 2));
    }
    let svg = draw("", &Record::read(&text).unwrap(), &names);
    assert_well_formed(&svg);
    assert_eq!(texts(&svg, "faint"), ["… 400 rows left out", "… 199 rows left out"]);
    let rows = texts(&svg, "text");
    assert_eq!(rows.len(), 401);
    assert_eq!((rows[99], rows[100], rows[101]), ("row 99", "row 500", "row 700"));
    let whole: String = (0..400).map(|row| format!("step\thost {}\trow {row}\n", row % 2)).collect();
    assert!(texts(&draw("", &Record::read(&whole).unwrap(), &names), "faint").is_empty());
}

#[test]
fn long_words_are_broken_and_long_texts_cut() {
    let long = "x".repeat(200);
    let svg = draw("", &Record::read(&format!("step\thost 0\t{long}\n")).unwrap(), &names);
    let lines = texts(&svg, "text");
    assert_eq!(lines.len(), 2);
    assert!(lines[1].ends_with('…') && lines.iter().all(|line| line.chars().count() <= 27), "{lines:?}");
}
