#include "sim/config/document.hpp"

#include <doctest/doctest.h>

#include <ctime>

#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

ConfigNode parsed(const std::string& text) {
  ConfigErrors errors;
  ConfigNode root = parse_yaml(text, "a.yaml", errors);
  errors.throw_if_any();
  return root;
}

std::string after_override(const std::string& text, const Override& change) {
  ConfigErrors errors;
  ConfigNode root = parse_yaml(text, "a.yaml", errors);
  apply_override(root, change, errors);
  errors.throw_if_any();
  return to_yaml(root);
}

}  // namespace

TEST_SUITE("document: reading") {
  TEST_CASE("every node knows its line and column, counted from 1") {
    const ConfigNode root = parsed("a: 1\nb:\n  c: [x, y]\n");
    const ConfigEntry* b = root.find("b");
    REQUIRE(b != nullptr);
    const ConfigEntry* c = b->value.find("c");
    REQUIRE(c != nullptr);
    CHECK(c->mark.line == 3);
    CHECK(c->mark.column == 3);
    REQUIRE(c->value.items.size() == 2);
    CHECK(c->value.items[1].text == "y");
    CHECK(c->value.items[1].mark.column == 10);
    CHECK(c->value.items[1].mark.place().source_line == "  c: [x, y]");
  }

  TEST_CASE("text that is no acceptable YAML is refused with its place") {
    struct Row {
      const char* name;
      std::string text;
      std::string message;
    };
    const std::vector<Row> rows = {
        {"repeated key", "a: 1\nb: 2\na: 3\n",
         "a.yaml:3:1: error: repeated key \"a\"; it stands on line 1 already, keep one of them\n"
         "    3 | a: 3\n      | ^"},
        {"two repeated keys", "x: {a: 1, a: 2}\nx: 1\n",
         "a.yaml:1:11: error: repeated key \"a\"; it stands on line 1 already, keep one of them\n"
         "    1 | x: {a: 1, a: 2}\n      |           ^\n"
         "a.yaml:2:1: error: repeated key \"x\"; it stands on line 1 already, keep one of them\n"
         "    2 | x: 1\n      | ^"},
        {"alias", "a: &x 1\nb: *x\n",
         "a.yaml:2:4: error: aliases (*name) are not accepted; write the value out\n"
         "    2 | b: *x\n      |    ^"},
        {"tab", "a:\n\tb: 1\n",
         "a.yaml:2:1: error: tab in the indentation; YAML allows only spaces there\n"
         "    2 | \tb: 1\n      | ^"},
        {"unclosed bracket", "a: [1, 2\n",
         "a.yaml:2:1: error: not valid YAML: end of sequence flow not found"},
        {"bad mapping", "a: 1\n  b: 2\n",
         "a.yaml:2:4: error: not valid YAML: illegal map value\n    2 |   b: 2\n      |    ^"},
        {"second document", "a: 1\n---\nb: 2\n",
         "a.yaml:3:1: error: a second document begins here; a file holds one\n    3 | b: 2\n      | ^"},
        {"key that is a list", "[a, b]: 1\n",
         "a.yaml:1:1: error: a key must be a single word\n    1 | [a, b]: 1\n      | ^"},
    };
    for (const Row& row : rows) {
      SUBCASE(row.name) {
        CHECK(message_of([&] { static_cast<void>(parsed(row.text)); }) == row.message);
      }
    }
    const std::string deep = message_of([] { static_cast<void>(parsed("a: " + std::string(3000, '['))); });
    CHECK_MESSAGE(deep.find("error: nested too deeply") != std::string::npos, deep);
  }

  TEST_CASE("files that are no configuration are refused, each within a second") {
    const Folder folder;
    const std::string large = folder.write("large.yaml", "a: 1\n");
    std::filesystem::resize_file(large, 100'000'000);  // sparse
    const std::string half = folder.write("half.yaml", "a: 1\n");
    std::filesystem::resize_file(half, 3'000'000);  // zeros
    std::string many_keys;
    for (int i = 0; i < 300'000; ++i) many_keys += "k" + std::to_string(i) + ": 1\n";
    struct Row {
      const char* name;
      std::string file;
      std::string message;
    };
    const std::vector<Row> rows = {
        {"missing", folder / "none.yaml", "none.yaml: error: no such file"},
        {"below a file", large + "/x.yaml", "large.yaml/x.yaml: error: Not a directory"},
        {"folder", folder / "", ": error: is a folder; name a file in it"},
        {"empty", folder.write("empty.yaml", ""), "empty.yaml: error: is empty"},
        {"only comments", folder.write("comments.yaml", "# nothing\n"),
         "comments.yaml: error: is empty (nothing but comments)"},
        {"binary",
         folder.write("binary.yaml", std::string("\x7f"
                                                 "ELF\0\1",
                                                 6)),
         "binary.yaml: error: not a text file: byte 5 is not UTF-8 text"},
        {"zeros", half, "half.yaml: error: not a text file: byte 6 is not UTF-8 text"},
        {"Latin-1", folder.write("latin.yaml", "a: \xe9t\xe9\n"),
         "latin.yaml: error: not a text file: byte 4 is not UTF-8 text"},
        {"100 MB", large,
         "large.yaml: error: is too large (100000000 bytes; at most 4194304 bytes are read); is it the right "
         "file?"},
        {"endless", "/dev/zero",
         "/dev/zero: error: is too large (it goes on after that; at most 4194304 bytes are read); is it the "
         "right "
         "file?"},
        {"a list", folder.write("list.yaml", "- a\n- b\n"),
         "list.yaml:1:1: error: expected keys with values such as \"version: 1\"; is it the right file?\n"
         "    1 | - a\n      | ^"},
        {"prose", folder.write("prose.yaml", "Dear reader\n"),
         "prose.yaml:1:1: error: expected keys with values such as \"version: 1\"; is it the right file?\n"
         "    1 | Dear reader\n      | ^"},
        {"many keys", folder.write("keys.yaml", many_keys),
         "keys.yaml:1001:1: error: more than 1000 keys in one block\n 1001 | k1000: 1\n      | ^"},
    };
    for (const Row& row : rows) {
      SUBCASE(row.name) {
        const std::clock_t start = std::clock();  // not wall-clock: tests run beside each other
        CHECK(message_of(
                  [&] {
                    ConfigErrors errors;
                    static_cast<void>(read_yaml_file(row.file, errors));
                  },
                  folder / "") == row.message);
        CHECK(std::clock() - start < CLOCKS_PER_SEC);
      }
    }
  }

  TEST_CASE("nesting that would exhaust the stack is refused") {
    CHECK(message_of([] { static_cast<void>(parsed("a: " + std::string(100'000, '['))); }) != "");
  }
}

TEST_SUITE("document: overrides") {
  TEST_CASE("a value is set, added or laid over a name") {
    struct Row {
      const char* name;
      std::string text;
      Override change;
      std::string result;
    };
    const std::vector<Row> rows = {
        {"replaced", "a: {b: 1, c: 2}", {"a.b", "3"}, "a: {b: 3, c: 2}\n"},
        {"added", "a: {b: 1}", {"a.c", "3"}, "a: {b: 1, c: 3}\n"},
        {"added below nothing", "a: 1", {"b.c.d", "3"}, "a: 1\nb: {c: {d: 3}}\n"},
        {"a list", "a: {b: 1}", {"a.b", "[1, 2]"}, "a: {b: [1, 2]}\n"},
        {"a block", "a: {b: 1}", {"a", "{x: y}"}, "a: {x: y}\n"},
        {"below a name", "a: name", {"a.b.c", "2"}, "a: {base: name, b: {c: 2}}\n"},
        {"the name itself", "a: name", {"a", "other"}, "a: other\n"},
    };
    for (const Row& row : rows) {
      SUBCASE(row.name) {
        CHECK(after_override(row.text, row.change) == row.result);
      }
    }
  }

  TEST_CASE("an override that cannot be applied is reported at the flag") {
    struct Row {
      const char* name;
      Override change;
      std::string message;
    };
    const std::vector<Row> rows = {
        {"below a list", {"a.b.0", "1"}, "--set a.b.0=1: error: \"b\" is a list; set it as a whole"},
        {"below a value",
         {"a.c.d", "1"},
         "--set a.c.d=1: error: \"c\" is a single value; nothing lies below it"},
        {"empty part",
         {"a..b", "1"},
         "--set a..b=1: error: the path has an empty part; write it as in batch.global=64"},
        {"broken value",
         {"a.c", "[1"},
         "--set a.c=[1: error: not valid YAML: end of sequence flow not found"},
    };
    for (const Row& row : rows) {
      SUBCASE(row.name) {
        CHECK(message_of([&] { static_cast<void>(after_override("a: {b: [1, 2], c: 3}", row.change)); }) ==
              row.message);
      }
    }
  }
}

TEST_SUITE("document: merging and printing") {
  TEST_CASE("a block laid over a base keeps what it does not name") {
    struct Row {
      const char* name;
      std::string base, over, result;
    };
    const std::vector<Row> rows = {
        {"nested", "a: {b: 1, c: {d: 2}}", "a: {c: {e: 3}}", "a: {b: 1, c: {d: 2, e: 3}}\n"},
        {"lists are replaced", "a: [1, 2]", "a: [3]", "a: [3]\n"},
        {"same kind", "x: {kind: t, p: 1, link: l}", "x: {kind: t, q: 2}",
         "x: {kind: t, p: 1, link: l, q: 2}\n"},
        {"another kind keeps the link only", "x: {kind: t, p: 1, link: l}", "x: {kind: u}",
         "x: {link: l, kind: u}\n"},
    };
    for (const Row& row : rows) {
      SUBCASE(row.name) {
        CHECK(to_yaml(merge(parsed(row.base), parsed(row.over))) == row.result);
      }
    }
  }

  TEST_CASE("printed text reads back as the same text") {
    for (const std::string text : {"plain", "a b", "a: b", "# no comment", "\"quoted\" \\ back", "- item",
                                   "null", "~", "tab\tand\nline", "{x}", "ünï × 2"}) {
      CAPTURE(text);
      ConfigNode root = parsed("a: 1");
      root.find("a")->value = scalar_node(text);
      const ConfigNode again = parsed(to_yaml(root));
      CHECK(again.find("a")->value.kind == ConfigNode::Kind::Scalar);
      CHECK(again.find("a")->value.text == text);
    }
  }

  TEST_CASE("a block too wide for a line is printed one key a line") {
    const std::string word(60, 'w');
    const std::string text = "a:\n  b: " + word + "\n  c: " + word + "\nd: {e: 1}\n";
    CHECK(to_yaml(parsed(text)) == text);
  }
}
