#include "sim/core/csv.hpp"

#include <doctest/doctest.h>

#include "sim/core/error.hpp"

using namespace syncline;

TEST_CASE("cells are found by row and column, quoted or not") {
  const CsvTable table = CsvTable::parse("id,note,n\r\na,\"x, \"\"y\"\"\nz\",1\n\nb,,\n", "t.csv");
  CHECK(table.columns() == std::vector<std::string>{"id", "note", "n"});
  REQUIRE(table.size() == 2);
  CHECK(table.at(0, "note") == "x, \"y\"\nz");
  CHECK(table.at(0, "n") == "1");
  CHECK(table.at(1, "id") == "b");
  CHECK(table.at(1, "note").empty());
  CHECK(table.at(1, "n").empty());
  CHECK(table.has("n"));
  CHECK_FALSE(table.has("m"));
  CHECK(table.at(1, "m").empty());
  CHECK(table.place(0).line == 2);
  CHECK(table.place(1).line == 5);  // the quoted line break counts
}

TEST_CASE("what is wrong is told with its line") {
  const struct {
    const char* text;
    int line;
    const char* message;
  } rows[] = {
      {"", 1, "names of the columns"},
      {"a,b\n1,2\n1\n", 3, "1 fields, but the header names 2 columns"},
      {"a,b\n1,2,3\n", 2, "3 fields"},
      {"a,a\n", 1, "\"a\" is there twice"},
      {"a,\n", 1, "column 2 has no name"},
      {"a\n1\n\"x\ny", 3, "never closed"},
      {"a\n\"x\"y\n", 2, "behind a closing quote"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    try {
      static_cast<void>(CsvTable::parse(row.text, "t.csv"));
      FAIL("accepted");
    } catch (const InputError& error) {
      CHECK(error.diagnostics().front().place.file == "t.csv");
      CHECK(error.diagnostics().front().place.line == row.line);
      CHECK(error.diagnostics().front().message.find(row.message) != std::string::npos);
    }
  }
}

TEST_CASE("a written field is read back") {
  for (const char* text : {"", "a", "a,b", "say \"no\"", "two\nlines", "\""}) {
    CAPTURE(text);
    const CsvTable table = CsvTable::parse("x,y\n" + csv_field(text) + ",1\n", "t.csv");
    REQUIRE(table.size() == 1);
    CHECK(table.at(0, "x") == text);
  }
}
