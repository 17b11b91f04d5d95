//! The texts of the command line, and that they cannot change unnoticed.

use super::command;

#[test]
fn the_command_is_sound() {
    command().debug_assert();
}

#[test]
fn help_of_every_verb() {
    let mut texts = Vec::new();
    collect(&mut command().term_width(100), &mut texts);
    insta::assert_snapshot!(texts.join("\n"));
}

fn collect(command: &mut clap::Command, texts: &mut Vec<String>) {
    command.build();
    let mut open = vec![command.clone()];
    while let Some(mut command) = open.pop() {
        let name = command.get_bin_name().unwrap_or("tidings").to_owned();
        let help = command.render_long_help().to_string();
        let lines: Vec<_> = help.lines().map(str::trim_end).collect();
        texts.push(format!("## {name}\n\n{}\n", lines.join("\n")));
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let verbs: Vec<_> = verbs.filter(|verb| verb.get_name() != "help").cloned().collect();
        open.extend(verbs.into_iter().rev());
    }
}

#[test]
fn no_line_is_wider_than_a_hundred_columns() {
    let mut texts = Vec::new();
    collect(&mut command().term_width(100), &mut texts);
    for line in texts.iter().flat_map(|text| text.lines()) {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
