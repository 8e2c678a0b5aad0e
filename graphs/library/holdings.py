"""What the library holds: kinds of things, and of each a few, with the year and what is known about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

TEXT = """
paper, papers: scientific articles in journals
On the Electrodynamics of Moving Bodies | 1905 | Einstein's article on special relativity
A Mathematical Theory of Communication | 1948 | Shannon's article, which founded information theory
Molecular Structure of Nucleic Acids | 1953 | Watson and Crick on the double helix

patent, patents: inventions and who has the right to them
the telephone | 1876 | granted to Alexander Graham Bell
the phonograph | 1878 | granted to Thomas Edison
the hook and loop fastener | 1955 | granted to George de Mestral

element, elements: chemical substances of one sort of atom
Helium | 1868 | first seen in the spectrum of the sun
Radium | 1898 | discovered by Marie and Pierre Curie
Technetium | 1937 | the first element that was made artificially

planet, planets: worlds that go around the sun
Uranus | 1781 | discovered by William Herschel
Neptune | 1846 | found by Galle where Le Verrier had calculated it

comet, comets: bodies of ice and dust with a tail
Halley's Comet | 1758 | came again as Halley had predicted
Shoemaker-Levy 9 | 1993 | fell into Jupiter a year after its discovery
Hale-Bopp | 1995 | seen with the naked eye for eighteen months

spacecraft, spacecraft: satellites, probes and telescopes in space
Sputnik 1 | 1957 | the first artificial satellite
Voyager 1 | 1977 | the first to leave the heliosphere
Hubble | 1990 | a telescope above the atmosphere

volcano, volcanoes: mountains that erupt
Vesuvius | 79 | buried Pompeii and Herculaneum
Krakatoa | 1883 | its eruption was heard thousands of kilometres away
Mount St. Helens | 1980 | lost its summit

earthquake, earthquakes: shocks of the ground, with their magnitude
the Lisbon earthquake | 1755 | with a tsunami, on All Saints' Day
the San Francisco earthquake | 1906 | fires burned for days
the Valdivia earthquake | 1960 | magnitude 9.5, the strongest that was measured

bridge, bridges: crossings of rivers, bays and valleys
Brooklyn Bridge | 1883 | crosses the East River in New York
Golden Gate Bridge | 1937 | crosses the strait at San Francisco
Millau Viaduct | 2004 | crosses the valley of the Tarn in France

building, buildings: towers and other tall works of architecture
Eiffel Tower | 1889 | built for a world's fair in Paris
Empire State Building | 1931 | the tallest of its time, in New York
Burj Khalifa | 2010 | 828 metres high, in Dubai

painting, paintings: pictures by famous painters
The Night Watch | 1642 | by Rembrandt, in Amsterdam
The Starry Night | 1889 | by Vincent van Gogh, in New York
Guernica | 1937 | by Pablo Picasso, in Madrid

museum, museums: collections of art and history
the British Museum | 1753 | founded in London
the Louvre | 1793 | opened in Paris in the revolution
the Prado | 1819 | opened in Madrid

novel, novels: long stories in prose
Don Quixote | 1605 | the first part, by Miguel de Cervantes
Frankenstein | 1818 | by Mary Shelley
Moby-Dick | 1851 | by Herman Melville

play, plays: dramas for the theatre
A Doll's House | 1879 | by Henrik Ibsen
Pygmalion | 1913 | by George Bernard Shaw
Waiting for Godot | 1953 | by Samuel Beckett, first played in Paris

film, films: moving pictures for the cinema
Metropolis | 1927 | by Fritz Lang
Casablanca | 1942 | by Michael Curtiz
Spirited Away | 2001 | by Hayao Miyazaki

symphony, symphonies: music for an orchestra by its composer
Beethoven's Ninth | 1824 | first played in Vienna, with a choir
the New World Symphony | 1893 | by Antonín Dvořák, first played in New York
the Leningrad Symphony | 1942 | by Dmitri Shostakovich, played in the siege

treaty, treaties: agreements between states
the Peace of Westphalia | 1648 | ended the Thirty Years' War
the Treaty of Versailles | 1919 | ended the war with Germany
the Antarctic Treaty | 1959 | keeps a continent for research

expedition, expeditions: journeys of discovery
Magellan's voyage | 1519 | began the first journey around the world
the Challenger expedition | 1872 | sounded the depths of the oceans
Amundsen's march | 1911 | reached the South Pole

programming_language, programming_languages: notations in which software is written
Fortran | 1957 | by John Backus and others at IBM
C | 1972 | by Dennis Ritchie at Bell Labs
Python | 1991 | by Guido van Rossum

computer, computers: machines that calculate
the Z3 | 1941 | by Konrad Zuse in Berlin
ENIAC | 1946 | shown in Philadelphia
the IBM PC | 1981 | an open design that many copied

vaccine, vaccines: protection against infections
the smallpox vaccine | 1796 | by Edward Jenner
the rabies vaccine | 1885 | by Louis Pasteur
the polio vaccine | 1955 | by Jonas Salk

drug, drugs: medicines and what they cure
Aspirin | 1899 | sold by Bayer, against pain
Insulin | 1922 | first given to a patient, against diabetes
Penicillin | 1928 | discovered by Alexander Fleming, against bacteria

fossil, fossils: remains of extinct animals
Archaeopteryx | 1861 | feathers of a first bird, found in Bavaria
Tyrannosaurus | 1905 | named by Henry Fairfield Osborn
Lucy | 1974 | an Australopithecus, found in Ethiopia

university, universities: places of higher education
Bologna | 1088 | the oldest that is still there
Oxford | 1096 | where teaching is first recorded
Harvard | 1636 | the oldest of the United States

tournament, tournaments: championships and games in sport
the modern Olympic Games | 1896 | first held in Athens
the Tour de France | 1903 | first ridden in six stages
the football World Cup | 1930 | first held in Uruguay
"""


@dataclass(frozen=True)
class Thing:
    """One thing, and what is known about it."""

    name: str
    year: int
    fact: str

    def __str__(self) -> str:
        return f"{self.name} ({self.year}): {self.fact}"


@dataclass(frozen=True)
class Kind:
    """A kind of things: `one` and `many` are parts of names of tools."""

    one: str
    many: str
    meaning: str
    things: list[Thing] = field(default_factory=list)

    def named(self, name: str) -> Thing:
        """The thing of that name; raises LookupError with the names that there are."""
        found = next((one for one in self.things if plain(one.name) == plain(name)), None)
        if found is None:
            raise LookupError(f"no {self.one} {name!r}; there are {', '.join(one.name for one in self.things)}")
        return found


def plain(name: str) -> str:
    """A name without its article, in lower case."""
    return name.strip().casefold().removeprefix("the ")


def _read(text: str) -> Sequence[Kind]:
    kinds = []
    for block in text.strip().split("\n\n"):
        head, *lines = block.splitlines()
        names, meaning = head.split(": ")
        one, many = names.split(", ")
        fields = [line.split(" | ") for line in lines]
        things = [Thing(name, int(year), fact) for name, year, fact in fields]
        kinds.append(Kind(one, many, meaning, things))
    return kinds


KINDS = _read(TEXT)
