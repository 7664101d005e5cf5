#include <doctest/doctest.h>

#include "sim/core/error.hpp"
#include "sim/schedule/text.hpp"

using namespace syncline;

namespace {

std::string errors_of(const std::string& text) {
  try {
    static_cast<void>(read_schedule(text, "f.schedule"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// Ten lines that open a sound schedule of four ranks; what a row adds begins in line 11.
const std::string Opening =
    "syncline-schedule 1\n"
    "name \"x\"\n"
    "mesh dense axes=dp:2,pp:2\n"
    "family dp mesh=dense axes=dp\n"
    "stream compute\n"
    "stream send\n"
    "work 0 \"w\"\n"
    "  kernel fixed bf16 seconds=1\n"
    "role 0 \"all\" ranks=0-3\n"
    "  op 0 compute work=0 stream=compute\n";

struct Row {
  std::string line;  // line 11
  int column;        // of the error
  std::string message;
};

}  // namespace

TEST_SUITE("schedule text errors") {
  TEST_CASE("the opening that the rows build on is sound") {
    CHECK(errors_of(Opening + "end\n") == "no error");
  }

  TEST_CASE("each mistake in a line is shown with its place") {
    const Row rows[] = {
        // words and keys
        {"strem x", 1,
         "unknown line \"strem\"; did you mean \"stream\"? (known: name, job, mesh, family, stream, "
         "library, exchange, load, work, kernel, role, resident, op, speed, end)"},
        {"=x", 1, "expected a word that says what the line is, found \"=x\""},
        {"  op 1 send to=1 byts=8 stream=send", 18,
         "unknown key \"byts\"; did you mean \"bytes\"? (known: to, bytes, message, eager, stream, phase, "
         "layer, microbatch, chunk, name, after, memory)"},
        {"  op 1 send to=1 bytes=8 stream=send bytes=8", 38, "key \"bytes\" stands twice"},
        {"  op 1 send to=1 stream=send", 29, "missing \"bytes\""},
        {"  op 1 send to=1 bytes=8", 25, "missing \"stream\""},
        {"  op 1 send to=1 bytes 8 stream=send", 23, "key \"bytes\" needs a value: bytes=..."},
        {"  op 1 send to=1 bytes=8 stream=send eager=1", 43, "expected a blank, found \"=1\""},
        {"  op 1 sned to=1 bytes=8", 8,
         "unknown kind of op \"sned\"; did you mean \"send\"? (known: compute, collective, send, receive, "
         "host-work, host-wait)"},
        {"  op 1 collective all-gatter family=dp", 19,
         "unknown collective \"all-gatter\"; did you mean \"all-gather\"? (known: all-reduce, all-gather, "
         "reduce-scatter, broadcast, all-to-all, shift, reduce, scatter, gather)"},
        {"  op 1 collective", 18, "missing \"kind\""},
        {"name \"second\"", 1, "a second name line"},
        {"stream", 7, "missing \"name\""},
        // numbers
        {"  op 1 send to=1 bytes=-8 stream=send", 24, "\"-8\" is negative; expected 0 or more"},
        {"  op 1 send to=1 bytes=nan stream=send", 24, "\"nan\" is not a finite number"},
        {"  op 1 send to=1 bytes=inf stream=send", 24, "\"inf\" is not a finite number"},
        {"  op 1 send to=1 bytes=1e999 stream=send", 24, "\"1e999\" is out of range"},
        {"  op 1 send to=1 bytes=8kB stream=send", 24, "\"8kB\" is not a plain number"},
        {"  op 1 send to=1 bytes= stream=send", 24, "expected a number, found a blank"},
        {"  op 1 send to=1 bytes=8 message=-1 stream=send", 34,
         "expected a whole number, 0 or more, found \"-1\""},
        {"  op 1 send to=1 bytes=8 message=010 stream=send", 34,
         "\"010\" has a leading zero; write it without"},
        {"  op 1 send to=1 bytes=8 message=2147483648 stream=send", 34,
         "\"2147483648\" is too large; at most 2147483647"},
        {"  op 1 send to=1 bytes=8 message=1.5 stream=send", 35, "expected a blank, found \".5\""},
        {"  op 1 compute work=0 stream=compute layer=-1", 44,
         "expected a whole number, 0 or more, found \"-1\""},
        {"  op 1 compute work=0 stream=compute memory=activations:8", 57,
         "expected \"+\" (taken) or \"-\" (given back) before the bytes, found \"8\""},
        {"  op 1 compute work=0 stream=compute memory=activations:--8", 58,
         "\"-8\" is negative; expected 0 or more"},
        {"  op 1 compute work=0 stream=compute memory=activation:+8", 45,
         "unknown memory category \"activation\"; did you mean \"activations\"? (known: parameters, "
         "gathered-parameters, gradients, optimizer, activations, communication-buffers, reserve)"},
        {"  op 1 send to=1 bytes=1e300 stream=send", 24, "too large; at most 1e+18 is possible"},
        {"  op 1 host-work seconds=1e308", 26, "too large; at most 1e+06 is possible"},
        {"  op 1 compute work=0 stream=compute memory=activations:-1e19", 58,
         "too large; at most 1e+18 is possible"},
        {"speed rank=1 factor=1e-9", 7, "a speed factor is from 1e-06 to 1e+06"},
        {"speed rank=1 factor=0", 7, "a speed factor must be above 0; it multiplies the time of compute"},
        // references
        {"  op 1 compute work=1 stream=compute", 21,
         "work 1 is not declared above this line; there are 1 so far"},
        {"  op 1 compute work=0 stream=comptue", 30,
         "unknown stream \"comptue\"; did you mean \"compute\"? (known: compute, send)"},
        {"  op 1 collective all-reduce family=pp bytes=8 stream=compute", 37,
         "unknown family \"pp\"; did you mean \"dp\"? (known: dp)"},
        {"  op 1 send to=4 bytes=8 stream=send", 16, "rank 4 is outside the mesh of 4 ranks"},
        {"  op 1 send to=pp:2 bytes=8 stream=send", 19, "coordinate 2 is outside axis \"pp\" of size 2"},
        {"  op 1 send to=tp:0 bytes=8 stream=send", 16,
         "unknown axis \"tp\"; did you mean \"dp\"? (known: dp, pp)"},
        {"  op 1 compute work=0 stream=compute after=1", 44,
         "op 1 cannot wait for op 1; only earlier ops of its role"},
        {"  op 1 compute work=0 stream=compute after=0,0", 46, "the ops waited for must ascend"},
        {"  op 1 host-wait op=3", 21, "op 1 cannot wait for op 3; only earlier ops of its role"},
        {"speed rank=9 factor=1", 12, "rank 9 is outside the mesh of 4 ranks"},
        {"  op 1 collective all-to-all family=dp bytes=8 exchange=x stream=compute", 57,
         "no exchange is declared above this line"},
        {"  op 1 collective all-to-all family=dp bytes=8 library=x stream=compute", 56,
         "no library is declared above this line"},
        {"  op 1 compute work=0 load=x stream=compute", 28, "no load is declared above this line"},
        {"  op 1 send to=1 bytes=8 load=x stream=send", 26,
         "unknown key \"load\" (known: to, bytes, message, eager, stream, phase, layer, microbatch, chunk, "
         "name, "
         "after, memory)"},
        // exchanges and loads
        {"exchange x counts=0,1/1", 23, "this row has 1 numbers, the first has 2"},
        {"exchange x counts=0,1*2/1*3", 10,
         "counts have 2 rows of 3 numbers; expected 3 rows for each group"},
        {"exchange x counts=0,1", 10, "counts have 1 rows of 2 numbers; expected 2 rows for each group"},
        {"exchange x counts=", 19, "expected a number, found the end of the line"},
        {"exchange x counts=0,-1:2", 21, "\"-1\" is negative; expected 0 or more"},
        {"exchange x counts=0,1e16:2", 21, "too large; at most 1e+15 is possible"},
        {"exchange x counts=1*0", 21, "0 times is never; expected 1 or more"},
        {"exchange x counts=1*67108865", 21, "exchanges and loads have more than 67108864 numbers"},
        {"exchange x counts=1*8192:8193", 26, "exchanges and loads have more than 67108864 numbers"},
        {"exchange x counts=1*2:2 node-members=1", 10, "node-members= and to-nodes= stand together"},
        {"exchange x counts=1*2:2 to-nodes=1:2", 10, "node-members= and to-nodes= stand together"},
        {"exchange x counts=1*3:3 node-members=2 to-nodes=1:3", 10,
         "2 members on a node do not divide 3 members"},
        {"exchange x counts=1*2:2 node-members=1 to-nodes=1:2", 10,
         "to-nodes has 2 rows of 1 numbers; expected 2 of 2, as many rows as counts"},
        {"load x family=dp factors=1,1e7", 28, "too large; at most 1e+06 is possible"},
        {"load x family=dp factors=", 26, "expected a number, found the end of the line"},
        {"load x factors=1", 17, "missing \"family\""},
        {"  op 1 compute work=0 stream=compute memory=activations:+8*lode", 60,
         "bytes may be times the rank's load only: *load"},
        // order and structure
        {"  op 2 compute work=0 stream=compute", 6, "op 2 stands where op 1 is expected"},
        {"role 2 \"b\" ranks=", 6, "role 2 stands where role 1 is expected"},
        {"work 0 \"b\"", 6, "work 0 stands where work 1 is expected"},
        {"  kernel fixed bf16 seconds=1", 3, "kernel lines stand under a work line"},
        {"role 1 \"b\" ranks=3", 8, "rank 3 stands in role 0 already"},
        {"role 1 \"b\" ranks=3-1", 18, "a range must ascend, as in 0-7 or 0-14:2"},
        {"role 1 \"b\" ranks=0-2:0", 18, "a range must ascend, as in 0-7 or 0-14:2"},
        {"role 1 \"b\" ranks=0-3,0-3", 22, "more ranks are listed than the mesh has (4)"},
        {"stream send", 8, "stream \"send\" is declared twice"},
        {"mesh expert axes=ep:8", 6, "mesh \"expert\" has 8 ranks where the first mesh has 4"},
        {"mesh expert axes=ep:0,x:4", 18, "axis \"ep\" has size 0; expected 1 or more"},
        {"mesh expert axes=ep:2,ep:2", 23, "axis \"ep\" stands twice"},
        {"mesh expert axes=ep:1048577", 6, "mesh \"expert\" has more than 1048576 ranks"},
        {"mesh expert axes=ep:2147483647,b:2147483647,c:2147483647", 6,
         "mesh \"expert\" has more than 1048576 ranks"},
        {"mesh expert axes=ep", 20, "expected \":\" and the size of the axis, found the end of the line"},
        {"family x mesh=dense", 8, "a family has either mesh= and axes=, or groups="},
        {"family x mesh=dense axes=dp groups=0,1", 8, "a family has either mesh= and axes=, or groups="},
        {"family x mesh=desne axes=dp", 8, "unknown mesh \"desne\"; did you mean \"dense\"? (known: dense)"},
        {"family x mesh=dense axes=ep", 8, "unknown axis \"ep\"; did you mean \"dp\"? (known: dp, pp)"},
        {"family x groups=0,1/1,2", 8, "rank 1 stands twice in family \"x\""},
        // strings
        {"stream \"open", 8, "this quote is not closed on its line"},
        {"stream \"a\\qb\"", 10,
         "unknown escape; known are \\\" \\\\ \\n \\t \\r and \\x with two hexadecimal digits"},
        {"stream \"a\\x4\"", 10,
         "unknown escape; known are \\\" \\\\ \\n \\t \\r and \\x with two hexadecimal digits"},
        {"stream \"a\"b", 11, "expected a blank, found \"b\""},
        {"stream \"\\xff\"", 8, "this string is not valid UTF-8"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.line);
      const std::string caret = "      | " + std::string(static_cast<std::size_t>(row.column) - 1, ' ') + "^";
      CHECK(errors_of(Opening + row.line + "\nend\n") == "f.schedule:11:" + std::to_string(row.column) +
                                                             ": error: " + row.message + "\n   11 | " +
                                                             row.line + "\n" + caret);
    }
  }

  TEST_CASE("what is no schedule at all is said so in one message") {
    struct File {
      std::string name, text, error;
    };
    const std::string header = "syncline-schedule 1\n";
    const File files[] = {
        {"empty", "",
         "f.schedule:1:1: error: the file is empty; a schedule begins with \"syncline-schedule 1\""},
        {"a scenario", "version: 1\n",
         "f.schedule:1:1: error: not a schedule; the first line must be \"syncline-schedule 1\"\n    1 | "
         "version: 1\n      | ^"},
        {"a later version", "syncline-schedule 2\nend\n",
         "f.schedule:1:19: error: version \"2\" of the format is not known; this program reads version 1\n"
         "    1 | syncline-schedule 2\n      |                   ^"},
        {"no version", "syncline-schedule\n",
         "f.schedule:1:1: error: not a schedule; the first line must be \"syncline-schedule 1\"\n    1 | "
         "syncline-schedule\n      | ^"},
        {"binary from the start",
         std::string("\x7f"
                     "ELF\x02\x01\x00\x00",
                     8),
         "f.schedule:1:1: error: not a schedule; the first line must be \"syncline-schedule 1\""},
        {"binary after the header", header + std::string("abc\0def", 7) + "\nend\n",
         "f.schedule:2:4: error: control character 0x00; a schedule is plain text"},
        {"cut after the header", header,
         "f.schedule:1:20: error: the file ends without a line \"end\"; was it cut short?\n"
         "    1 | syncline-schedule 1\n      |                    ^"},
        {"cut in a line", Opening + "  op 1 compute work=0 str",
         "f.schedule:11:23: error: unknown key \"str\" (known: work, load, stream, phase, layer, "
         "microbatch, chunk, name, after, memory)\n   11 |   op 1 compute work=0 str\n      |                "
         "       ^\n"
         "f.schedule:11:26: error: the file ends without a line \"end\"; was it cut short?\n"
         "   11 |   op 1 compute work=0 str\n      |                          ^"},
        {"no mesh", header + "end\n",
         "f.schedule:2:1: error: there is no mesh line, such as \"mesh dense axes=dp:8\"\n    2 | end\n      "
         "| ^"},
        {"a rank before any mesh", header + "role 0 \"x\" ranks=0\nend\n",
         "f.schedule:2:18: error: a mesh line must come before any rank\n    2 | role 0 \"x\" ranks=0\n      "
         "|                  ^"},
        {"a family before any mesh", header + "family x groups=\nend\n",
         "f.schedule:2:8: error: a mesh line must come before any family\n    2 | family x groups=\n      |  "
         "      ^"},
        {"an op outside a role", header + "op 0 host-work seconds=1\nend\n",
         "f.schedule:2:1: error: op lines stand under a role line\n    2 | op 0 host-work seconds=1\n      | "
         "^"},
        {"an undeclared stream", header + "mesh d axes=dp:1\nrole 0 x ranks=0\nop 0 compute stream=s\nend\n",
         "f.schedule:4:21: error: no stream is declared above this line\n    4 | op 0 compute stream=s\n     "
         " |                     ^"},
        {"one rank without a role", header + "mesh d axes=dp:3\nrole 0 x ranks=0,2\nend\n",
         "f.schedule:4:1: error: rank 1 is in no role\n    4 | end\n      | ^"},
        {"many ranks without a role", header + "mesh d axes=dp:9\nrole 0 x ranks=0-2\nend\n",
         "f.schedule:4:1: error: 6 ranks are in no role; the first is rank 3\n    4 | end\n      | ^"},
        {"speeds in disorder",
         header + "mesh d axes=dp:2\nrole 0 x ranks=0,1\nspeed rank=1 factor=2\nspeed rank=1 factor=3\nend\n",
         "f.schedule:5:7: error: the ranks of speed lines must ascend\n    5 | speed rank=1 factor=3\n      "
         "|       ^"},
        {"text after the end", Opening + "end\nstream x\n",
         "f.schedule:12:1: error: nothing may follow the line \"end\"\n   12 | stream x\n      | ^"},
    };
    for (const File& file : files) {
      CAPTURE(file.name);
      CHECK(errors_of(file.text) == file.error);
    }
  }

  TEST_CASE("exchanges of a file may not have more numbers together than one may alone") {
    // 8192 x 8192 is all there may be; what comes after it is refused.
    const std::string error =
        errors_of(Opening + "exchange x counts=1*8192:8192\nexchange y counts=1\nend\n");
    CHECK(error.find("f.schedule:12:19: error: exchanges and loads have more than 67108864 numbers") == 0);
  }

  TEST_CASE("all mistakes of a file are told, up to twenty") {
    std::string text = Opening;
    for (int i = 0; i < 3; ++i) text += "nonsense\n";
    try {
      static_cast<void>(read_schedule(text + "end\n", "f"));
      FAIL("accepted");
    } catch (const InputError& error) {
      REQUIRE(error.diagnostics().size() == 3);
      for (int i = 0; i < 3; ++i)
        CHECK(error.diagnostics()[static_cast<std::size_t>(i)].place.line == 11 + i);
    }
    for (int i = 0; i < 100000; ++i) text += "nonsense\n";
    try {
      static_cast<void>(read_schedule(text, "f"));
      FAIL("accepted");
    } catch (const InputError& error) {
      REQUIRE(error.diagnostics().size() == 21);
      CHECK(error.diagnostics().back().message == "stopped here after 20 errors");
      CHECK(error.diagnostics().back().place.line == 30);
    }
  }

  TEST_CASE("a line of ten million characters is refused without being shown") {
    const std::string error =
        errors_of(Opening + "stream " + std::string(10000000, 'x') + "=\n" + "y\nend\n");
    CHECK(error.size() < 1000);
    CHECK(error.find("f.schedule:11:10000008: error: expected a blank, found \"=\"") != std::string::npos);
  }

  TEST_CASE("a file cut at any byte is refused") {
    const std::string whole =
        Opening + "  op 1 send to=pp:1 bytes=8 message=3 stream=send after=0 memory=activations:+5\nend\n";
    REQUIRE(errors_of(whole) == "no error");
    for (std::size_t length = 0; length + 1 < whole.size(); ++length) {
      CAPTURE(length);
      CHECK(errors_of(whole.substr(0, length)) != "no error");
    }
  }

  TEST_CASE("a file with any byte changed is read or refused, never worse") {
    const std::string whole =
        Opening + "  op 1 send to=pp:1 bytes=8 message=3 stream=send after=0 memory=activations:+5\nend\n";
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const char c : {'\0', ' ', '"', '9', '-', ',', ':', '=', 'x', '\n', '\xff'}) {
        std::string changed = whole;
        changed[at] = c;
        try {
          const Schedule schedule = read_schedule(changed, "f");
          const std::string text =
              schedule_text(schedule);  // what was accepted can be written and read again
          CHECK(read_schedule(text, "again") == schedule);
        } catch (const InputError& error) {
          CHECK(!error.diagnostics().empty());
        }
      }
  }
}
