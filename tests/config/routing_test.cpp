// `moe.routing` of a scenario, read and printed by itself.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/config/format_routing.hpp"
#include "sim/moe/counts_file.hpp"
#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;
using moe::Routing;

namespace {

Fields fields_of(Routing& routing) {
  return {{"routing", true, routing_codec(routing)}};
}

/// The routing of a file in the folder.
Routing read_from(const Folder& folder, const std::string& text) {
  const std::string file = folder.write("s.yaml", "routing: " + text + "\n");
  ConfigErrors errors;
  const ConfigNode root = read_yaml_file(file, errors);
  Routing routing;
  read_fields({root, root.mark, "", errors}, fields_of(routing));
  errors.throw_if_any();
  return routing;
}

std::string shown(Routing routing) {
  return to_yaml(write_fields(fields_of(routing)));
}

const std::string Counts = "layer,rank,expert,tokens\n0,0,0,3\n0,0,1,5\n";

}  // namespace

TEST_SUITE("scenario: routing") {
  TEST_CASE("each kind is read, and shown so that it reads the same again") {
    struct Row {
      std::string text;
      Routing routing;
    };
    const Row rows[] = {
        {"balanced", moe::Balanced{}},
        {"uniform", moe::Uniform{}},
        {"{zipf: 1.2}", moe::Zipf{1.2}},
        {"{zipf: 0}", moe::Zipf{0}},
        {"{dirichlet: 0.5}", moe::Dirichlet{0.5}},
        {"{hot: {experts: 4, share: 0.3}}", moe::Hot{4, 0.3}},
    };
    const Folder folder;
    for (const Row& row : rows) {
      CAPTURE(row.text);
      CHECK((read_from(folder, row.text) == row.routing));
      CHECK(shown(row.routing) == "routing: " + row.text + "\n");
    }
  }

  TEST_CASE("counts are read from a file beside the one that names it") {
    const Folder folder;
    std::filesystem::create_directory(folder / "data");
    folder.write("data/counts.csv", Counts);
    const Routing routing = read_from(folder, "{counts: data/counts.csv}");
    const auto& measured = std::get<moe::FromFile>(routing);
    REQUIRE(measured.counts);
    CHECK(measured.counts->tokens == std::vector<std::int64_t>{3, 5});
    CHECK(shown(routing) == "routing: {counts: data/counts.csv}\n");
    CHECK((read_from(folder, "{counts: data/counts.csv}") == routing));
    folder.write("data/counts.csv", Counts + "0,0,2,1\n");
    CHECK_FALSE((read_from(folder, "{counts: data/counts.csv}") == routing));
  }

  TEST_CASE("what is wrong is said where it stands") {
    struct Row {
      const char* text;
      const char* message;
    };
    const Row rows[] = {
        {"even",
         "s.yaml:1:10: error: \"routing\": \"even\" is unknown; expected balanced, uniform, {zipf: 1.2}, "},
        {"zipf",
         "s.yaml:1:10: error: \"routing\": \"zipf\" is unknown; expected balanced, uniform, {zipf: 1.2}, "},
        {"{zipff: 1}", "s.yaml:1:11: error: unknown key \"zipff\"; did you mean \"zipf\"?"},
        {"{zipf: 1, dirichlet: 1}",
         "s.yaml:1:1: error: \"routing\": has 2 keys; expected one of balanced, uniform, "},
        {"{}", "s.yaml:1:1: error: \"routing\": has 0 keys; expected one of "},
        {"[balanced]", "s.yaml:1:1: error: \"routing\": expected a block of keys, found a list"},
        {"{zipf: -1}", "s.yaml:1:17: error: \"routing.zipf\": \"-1\" must be at least 0"},
        {"{zipf: steep}", "s.yaml:1:17: error: \"routing.zipf\": "},
        {"{dirichlet: 0}", "s.yaml:1:22: error: \"routing.dirichlet\": \"0\" must be at least 0.001"},
        {"{hot: {experts: 4}}", "s.yaml:1:11: error: missing key \"share\" in \"routing.hot\"; add a number"},
        {"{hot: {experts: 4, share: 1}}",
         "s.yaml:1:36: error: \"routing.hot.share\": \"1\" must be at most 0.999999"},
        {"{hot: {experts: 0, share: 0.5}}",
         "s.yaml:1:26: error: \"routing.hot.experts\": \"0\" must be at least 1"},
        {"{counts: none.csv}", "s.yaml:1:19: error: \"routing.counts\": none.csv: no such file"},
        {"{counts: bad.csv}", "bad.csv:2: error: tokens is \"many\", expected a whole number from 0 to "},
    };
    const Folder folder;
    folder.write("bad.csv", "layer,rank,expert,tokens\n0,0,0,many\n");
    for (const Row& row : rows) {
      CAPTURE(row.text);
      const std::string message = message_of([&] { read_from(folder, row.text); }, folder / "");
      CAPTURE(message);
      CHECK(message.starts_with(row.message));
    }
  }
}
