#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes the man page and the bash completion from the program's help texts (tests/cli/help, which the tests compare with it).

scripts/write-manual.py OUT     writes OUT/afterimage.1 and OUT/afterimage.bash
"""

import dataclasses
import pathlib
import re
import sys

HELP = pathlib.Path(__file__).resolve().parents[1] / "tests" / "cli" / "help"
HEADER = re.compile(r"^ *(Options|Subcommands|Positionals|\[Option Group: .*\]|\[Exactly .*\]|Recorded only):?$")
OPTION = re.compile(r"^ {2,4}(-\S.*?)(?: {2,}(\S.*))?$")
CONTINUED = re.compile(r"^ {20,}(\S.*)$")
VERB = re.compile(r"^  ([a-z]+) {2,}(\S.*)$")
POSITIONAL = re.compile(r"^  (\S.*?) {2,}(\S.*)$")
CHOICES = re.compile(r"\{([^}]*)\}")


@dataclasses.dataclass
class Entry:
    name: str  # "--policy TEXT:{worth,lru}=worth", or a verb
    text: list[str]

    def flags(self) -> list[str]:
        return self.name.split()[0].split(",")

    def choices(self) -> list[str]:
        found = CHOICES.search(self.name)
        return found[1].split(",") if found else []


@dataclasses.dataclass
class Page:
    """One help text."""

    about: list[str]
    usage: str
    options: list[Entry]
    verbs: list[Entry]
    after: list[str]  # examples, exit codes


def read(text: str) -> Page:
    about, rest = text.split("Usage: ", 1)
    lines = rest.splitlines()
    page = Page(about.split("\n"), lines[0], [], [], [])
    last: Entry | None = None
    section = ""
    for line in lines[1:]:
        if (found := HEADER.match(line)) and not page.after:
            section = found[1]
        elif (found := CONTINUED.match(line)) and last and not page.after:
            last.text.append(found[1])
        elif (found := OPTION.match(line)) and not page.after:
            last = Entry(found[1], [found[2]] if found[2] else [])
            page.options.append(last)
        elif section == "Positionals" and (found := POSITIONAL.match(line)) and not page.after:
            last = Entry(found[1], [found[2]])
            page.options.append(last)
        elif (found := VERB.match(line)) and not page.after:
            last = Entry(found[1], [found[2]])
            page.verbs.append(last)
        elif line.strip() or page.after:
            page.after.append(line)
    return page


def troff(text: str) -> str:
    """Text for roff: no line is taken as a request."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", r"\e").replace("-", r"\-").replace("…", "..."), flags=re.MULTILINE)


def entry(one: Entry) -> list[str]:
    names, _, value = one.name.partition(" ")
    value = value.replace(" [b, kb(=1024b), ...]", "")
    return [".TP", rf".B {troff(names.replace(',', ', '))}" + (rf" \fI{troff(value)}\fR" if value else ""), troff(" ".join(one.text))]


def after(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return [".PP", ".nf", *(troff(line) for line in lines), ".fi"] if lines else []


def man_page(pages: dict[str, Page]) -> str:
    top = pages["afterimage"]
    out = ['.TH AFTERIMAGE 1 "" "afterimage" "User commands"', ".ad l", ".nh", ".SH NAME", r"afterimage \- reuse engine and caching gateway for multimodal LLM serving"]
    out += [".SH SYNOPSIS", r".B afterimage", r".I VERB", "[options]", ".SH DESCRIPTION", troff(" ".join(top.about).strip())]
    out += [".PP", "The verbs:"]
    for one in top.verbs:
        out += entry(one)
    out += [".SH OPTIONS"] + [line for one in top.options for line in entry(one)]
    for name, page in pages.items():
        if name == "afterimage":
            continue
        verb = name.replace("_", " ")
        out += [f'.SH "AFTERIMAGE {verb.upper()}"', troff(" ".join(page.about).strip()), ".PP", rf".B {troff(page.usage)}"]
        out += [line for one in page.options if "--help" not in one.name for line in entry(one)]
        out += after(page.after)
    out += [".SH EXIT STATUS"] + after([line for line in top.after if line.startswith("Exit codes")])
    out += [".SH FILES", ".TP", ".I /etc/afterimage/afterimage.toml", "Settings of the service, all with their defaults."]
    out += [".TP", ".I /etc/afterimage/environment", "Keys that the settings name by environment variable: NAME=value."]
    out += [".SH SEE ALSO", ".I /usr/share/doc/afterimage"]
    return "\n".join(out) + "\n"


COMPLETION = """# bash completion for afterimage; written by scripts/write-manual.py

_afterimage() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -*) ;;
      *) verb=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $verb in
    @GROUPS@) [[ $i -lt $((COMP_CWORD - 1)) ]] && verb=${verb}_${COMP_WORDS[i + 1]} ;;
  esac
  case $verb:$before in
@VALUES@
  esac
  COMPREPLY=()
  case $verb in
@WORDS@
  esac
}
complete -o default -F _afterimage afterimage
"""


def completion(pages: dict[str, Page]) -> str:
    values, words = [], []
    for name, page in pages.items():
        verb = "" if name == "afterimage" else name
        for one in page.options:
            if one.choices():
                cases = "|".join(f"{verb}:{flag}" for flag in one.flags())
                values.append(f"    {cases}) mapfile -t COMPREPLY < <(compgen -W '{' '.join(one.choices())}' -- \"$word\"); return ;;")
        flags = [flag for one in page.options for flag in one.flags() if flag.startswith("--")]
        pattern = verb or "''"
        names = " ".join([one.name for one in page.verbs] + (flags if verb else []))
        offered = f"compgen -W '{names}' -- \"$word\""
        if verb and not page.verbs:  # files are completed where no option begins
            words.append(f'    {pattern}) [[ $word == -* ]] && mapfile -t COMPREPLY < <({offered}) ;;')
        else:
            words.append(f"    {pattern}) mapfile -t COMPREPLY < <({offered}) ;;")
    groups = "|".join(name for name, page in pages.items() if page.verbs and name != "afterimage")
    return COMPLETION.replace("@GROUPS@", groups).replace("@VALUES@", "\n".join(values)).replace("@WORDS@", "\n".join(words))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    order = ["afterimage"] + [one.name for one in read((HELP / "afterimage.txt").read_text()).verbs]
    pages = {}
    for name in order:
        for path in [HELP / f"{name}.txt", *sorted(HELP.glob(f"{name}_*.txt"))]:
            pages[path.stem] = read(path.read_text())
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    (out / "afterimage.1").write_text(man_page(pages))
    (out / "afterimage.bash").write_text(completion(pages))


if __name__ == "__main__":
    main()
