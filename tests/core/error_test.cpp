#include "sim/core/error.hpp"

#include <doctest/doctest.h>

using namespace syncline;

TEST_SUITE("errors") {
  TEST_CASE("a diagnostic shows place, message, line and caret") {
    struct Row {
      std::string name;
      Diagnostic diagnostic;
      std::string text;
    };
    const std::string yaml = "parallel: {tensor: 8, pipeline: 7, data: 4}";
    const Row rows[] = {
        {"all known",
         {{"scenarios/gpt3.yaml", 6, 33, yaml}, "\"pipeline\" is 7"},
         "scenarios/gpt3.yaml:6:33: error: \"pipeline\" is 7\n"
         "    6 | parallel: {tensor: 8, pipeline: 7, data: 4}\n"
         "      |                                 ^"},
        {"first column", {{"f", 1, 1, "x"}, "m"}, "f:1:1: error: m\n    1 | x\n      | ^"},
        {"just behind the line", {{"f", 1, 2, "x"}, "m"}, "f:1:2: error: m\n    1 | x\n      |  ^"},
        {"no column", {{"f", 12, 0, "x: y"}, "m"}, "f:12: error: m\n   12 | x: y"},
        {"no source line", {{"f", 12, 3, ""}, "m"}, "f:12:3: error: m"},
        {"only a file", {{"f", 0, 0, ""}, "m"}, "f: error: m"},
        {"a flag", {{}, "--ranks is 0"}, "error: --ranks is 0"},
        {"names that would steer the terminal",
         {{"a\x1b[31m", 0, 0, ""}, "\"b\x07\" is unknown"},
         "a\\x1b[31m: error: \"b\\x07\" is unknown"},
        // Columns count bytes; an umlaut has two, the multiplication sign two, the rocket four.
        {"characters of several bytes before the caret",
         {{"f", 3, 12, "ü × 🚀 x: y"}, "m"},
         "f:3:12: error: m\n    3 | ü × 🚀 x: y\n      |       ^"},
        {"a tab before the caret",
         {{"f", 3, 3, "\ta: b"}, "m"},
         "f:3:3: error: m\n    3 | \ta: b\n      | \t ^"},
        {"a line number of six digits",
         {{"f", 123456, 2, "ab"}, "m"},
         "f:123456:2: error: m\n123456 | ab\n       |  ^"},
        {"a line with control characters is not echoed",
         {{"f", 2, 1, std::string("a\0\x1b[31m", 7)}, "m"},
         "f:2:1: error: m"},
    };
    for (const Row& row : rows) {
      SUBCASE(row.name.c_str()) {
        CAPTURE(row.name);
        CHECK(format_diagnostic(row.diagnostic) == row.text);
      }
    }
  }

  TEST_CASE("of a very long line the part round the caret is shown") {
    const std::string head(1000, 'a'), tail(1000, 'b');
    // The caret stands in column 1001; 110 bytes are shown from column 891 on, behind three dots: 110 + 3
    // blanks.
    CHECK(format_diagnostic({{"f", 1, 1001, head + "!" + tail}, "m"}) ==
          "f:1:1001: error: m\n    1 | ..." + std::string(109, 'a') + "!" + std::string(50, 'b') +
              "...\n      | " + std::string(112, ' ') + "^");
    CHECK(format_diagnostic({{"f", 1, 1, head}, "m"}) ==
          "f:1:1: error: m\n    1 | " + std::string(160, 'a') + "...\n      | ^");
    // Cut between characters, never inside one.
    std::string wide;
    for (int i = 0; i < 300; ++i) wide += "é";
    const std::string shown = format_diagnostic({{"f", 1, 402, wide}, "m"});
    CHECK(shown.find("\n    1 | ...é") != std::string::npos);
    CHECK(shown.find("é...\n") != std::string::npos);
  }

  TEST_CASE("an input error tells all its diagnostics, one after another") {
    const InputError one(Diagnostic{{"f", 0, 0, ""}, "a"});
    CHECK(std::string(one.what()) == "f: error: a");
    const InputError two({{{"f", 1, 0, ""}, "a"}, {{"f", 2, 0, ""}, "b"}});
    CHECK(std::string(two.what()) == "f:1: error: a\nf:2: error: b");
    REQUIRE(two.diagnostics().size() == 2);
    CHECK(two.diagnostics()[1].message == "b");
  }

  TEST_CASE("the nearest name is one that was probably meant, or none") {
    const std::vector<std::string> known = {"pipeline", "tensor", "data", "tp", "dp", "F"};
    struct Row {
      std::string word, nearest;
    };
    const Row rows[] = {
        {"pipline", "pipeline"},    // a letter left out
        {"pipelinee", "pipeline"},  // one too many
        {"tenser", "tensor"},       // another letter
        {"dtaa", "data"},           // two swapped
        {"ttp", "tp"},
        {"ep", "tp"},  // the first of two equally near
        {"q", ""},     // nothing in common with F
        {"sequence", ""},
        {"", ""},
        {std::string(1000000, 'x'), ""},
    };
    for (const Row& row : rows) {
      CAPTURE(row.word.substr(0, 20));
      CHECK(nearest_name(row.word, known) == row.nearest);
    }
  }

  TEST_CASE("an unknown name is told with what is known") {
    CHECK(unknown_name("key", "tenser", {"data", "tensor"}) ==
          "unknown key \"tenser\"; did you mean \"tensor\"? (known: data, tensor)");
    CHECK(unknown_name("key", "zzz", {"data", "tensor"}) == "unknown key \"zzz\" (known: data, tensor)");
    CHECK(unknown_name("key", "zzz", {}) == "unknown key \"zzz\"");
    CHECK(unknown_name("key", "zzz", std::vector<std::string>(20, "a")) ==
          "unknown key \"zzz\" (known: a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a and 4 more)");
  }

  TEST_CASE("a broken promise of our own is a logic error with its place") {
    CHECK_NOTHROW(SYNCLINE_CHECK(1 + 1 == 2, "sums"));
    try {
      SYNCLINE_CHECK(1 + 1 == 3, "sums are wrong");
      FAIL("passed");
    } catch (const std::logic_error& error) {
      const std::string text = error.what();
      CHECK(text.starts_with("internal error at "));
      CHECK(text.find("error_test.cpp:") != std::string::npos);
      CHECK(text.ends_with(": sums are wrong (1 + 1 == 3)"));
    }
  }
}
