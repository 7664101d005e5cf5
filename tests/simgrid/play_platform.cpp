// Plays flows on a platform in SimGrid as it is, with the settings that the platform itself brings, and prints when each ends.
// usage: play-platform PLATFORM.xml [SOURCE TARGET BYTES]...   (host names)
#include <cstdio>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <vector>

int main(int argc, char** argv) {
  simgrid::s4u::Engine engine(&argc, argv);
  if (argc < 2 || (argc - 2) % 3 != 0)
    return std::fputs("usage: play-platform PLATFORM.xml [SOURCE TARGET BYTES]...\n", stderr), 2;
  engine.load_platform(argv[1]);
  std::vector<double> ends(static_cast<std::size_t>(argc - 2) / 3);
  for (std::size_t flow = 0; flow < ends.size(); ++flow) {
    char** of = argv + 2 + 3 * flow;
    simgrid::s4u::Host* source = engine.host_by_name(of[0]);
    simgrid::s4u::Host* target = engine.host_by_name(of[1]);
    const auto bytes = static_cast<std::uint64_t>(std::atof(of[2]));
    simgrid::s4u::Actor::create("flow", source, [source, target, bytes, &end = ends[flow]] {
      simgrid::s4u::Comm::sendto(source, target, bytes);
      end = simgrid::s4u::Engine::get_clock();
    });
  }
  engine.run();
  for (const double end : ends) std::printf("%.12e\n", end);
  return 0;
}
