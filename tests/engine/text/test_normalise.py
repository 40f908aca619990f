"""What is written becomes words: a golden table of the rules and their order, and its bounds.

A row is `written ⇒ said`, several readings apart by ` | `. Words only are compared, in small
letters; marks and hyphens do not count, and "and" may be missing.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.text.normal.web import Urls
from engine.text.normalise import normalised, unread
from engine.text.spanned import Spanned


def spoken(text: str, language: str = "en-us", urls: Urls = "short") -> str:
    return normalised(Spanned.of(text), language, urls=urls).text


def words(text: str) -> str:
    plain = re.sub(r"[^\w\s']", " ", text.lower().replace("-", " "))
    return " ".join(word for word in plain.split() if word.strip("'") and word != "and")


def rows(table: str) -> list[tuple[str, str]]:
    lines = [line.split(" ⇒ ") for line in table.splitlines() if line.strip()]
    return [(line[0].strip(), line[1]) for line in lines]


#: every row of the measured cases that is one sentence without markup
MEASURED = """
No, it wasn’t. ⇒ no it wasn't
I won`t go. ⇒ i won't go
It has 3,497 items. ⇒ it has three thousand four hundred ninety seven items
It opened in 1999. ⇒ it opened in nineteen ninety nine
Since 2008 and until 2025. ⇒ since two thousand eight and until twenty twenty five
Pi is 3.14. ⇒ pi is three point one four
It cost $100,000. ⇒ it cost one hundred thousand dollars
The bill is $7667.47. ⇒ the bill is seven thousand six hundred sixty seven dollars and forty seven cents
They raised $1.2M. ⇒ they raised one point two million dollars
It is €3.50 each. ⇒ it is three euros and fifty cents each
Meet at 09:08 AM. ⇒ meet at nine oh eight am
Back at 9:30PM. ⇒ back at nine thirty pm
The train leaves at 17:05. ⇒ the train leaves at seventeen oh five
See you June 13th. ⇒ see you june thirteenth
Due 2024-03-05. ⇒ due march fifth twenty twenty four
Agent 007 reporting. ⇒ agent zero zero seven reporting
Upgrade to v1.2.3 now. ⇒ upgrade to version one point two point three now
The project is 90% complete. ⇒ the project is ninety percent complete
Run 5km at 20°C with 3GB free. ⇒ run five kilometers at twenty degrees celsius with three gigabytes free
A 5m rope. ⇒ a five meter rope
Open 9-17 on 40–60 days. ⇒ open nine to seventeen on forty to sixty days
It was -5 outside. ⇒ it was minus five outside
Add ½ cup, then 3/4 more. ⇒ add one half cup then three quarters more
2+2=4 and x² ⇒ two plus two equals four and x squared
Call 555-0123. ⇒ call five five five zero one two three
See https://example.com/a?b=1. ⇒ see example dot com slash a
Write to jo@example.org. ⇒ write to jo at example dot org
Use Mac, Linux, etc. Then, e.g. this one. ⇒ use mac linux et cetera then for example this one
Dr. Smith lives on Elm St. in St. Louis. ⇒ doctor smith lives on elm street in saint louis
The US and AI at NASA. ⇒ the us and ai at nasa
THIS IS FINE. ⇒ this is fine
You *shouldn't* panic ⇒ you shouldn't panic
Set max_len to 3. ⇒ set max len to three
a small group)—and at night ⇒ a small group and at night
Fish & chips ⇒ fish and chips
Ｈｅｌｌｏ １２３ ⇒ hello one hundred twenty three
“Really?” she said… then left. ⇒ really she said then left
and/or 24/7 ⇒ and or twenty four seven
Follow #OpenSource and @jo_smith. ⇒ follow hashtag open source and at jo smith
Chapter IV and World War II. ⇒ chapter four and world war two
pneumonoultramicroscopicsilicovolcanoconiosis ⇒ pneumonoultramicroscopicsilicovolcanoconiosis
"""

NUMBERS = """
₹1,00,000 for 12,34,567 people ⇒ one hundred thousand rupees for one million two hundred thirty four thousand five hundred sixty seven people
HK$100 and NZ$5 ⇒ one hundred hong kong dollars and five new zealand dollars
1.234,56 € ⇒ one thousand two hundred thirty four euros and fifty six cents
10,5 km ⇒ ten point five kilometers
No. I said no. ⇒ no i said no
Say no. 5 people said no. ⇒ say no five people said no
No. II and Vol. IV, fig. 3 ⇒ number two and volume four figure three
No. 5 is alive. ⇒ number five is alive
NY, CA and TSLA ⇒ ny ca and tsla
NASA AND THE FBI WARN US ⇒ nasa and the fbi warn us
MAY 3RD IS THE DAY ⇒ may third is the day
5–7 June 2020 ⇒ the fifth to the seventh of june twenty twenty
the 1920s–30s ⇒ the nineteen twenties to the thirties
£5.99p ⇒ five pounds and ninety nine pence
a $20-a-month plan ⇒ a twenty dollar a month plan
a $5-million deal ⇒ a five million dollar deal
ZIP 90210, PIN 4821 ⇒ zip nine zero two one zero pin four eight two one
A100-80GB ⇒ a one hundred eighty gigabytes | a one hundred eighty gb
https://user:pass@host.com ⇒ host dot com
1,000,000 ⇒ one million
I have 0 apples and 1 pear. ⇒ i have zero apples and one pear
It costs 1500 ⇒ it costs fifteen hundred
It holds 1500 people. ⇒ it holds one thousand five hundred people
In 1066 and in 1805. ⇒ in ten sixty six and in eighteen oh five
1999 was good. ⇒ nineteen ninety nine was good
Around 3497 items. ⇒ around three thousand four hundred ninety seven items
In 2000, 2001, 2010 and 1900. ⇒ in two thousand two thousand one twenty ten and nineteen hundred
The 1990s and the '90s. ⇒ the nineteen nineties and the nineties
The 80s, mid-1960s and 2000s. ⇒ the eighties mid nineteen sixties and two thousands
She is in her 30s. ⇒ she is in her thirties
Wait 30s. ⇒ wait thirty seconds
0.5 and .75 ⇒ zero point five and zero point seven five
10,000.25 ⇒ ten thousand point two five
-5, −5 and -0 ⇒ minus five minus five and minus zero
00 ⇒ zero zero
-$5 ⇒ minus five dollars
-40°F ⇒ minus forty degrees fahrenheit
¥100 ⇒ one hundred yen
≈5 ⇒ approximately five
~5 minutes ⇒ about five minutes
12345678901234567890 ⇒ one two three four five six seven eight nine zero one two three four five six seven eight nine zero
The 22nd, 13th, 1st and 3rd. ⇒ the twenty second thirteenth first and third
His 101st try ⇒ his one hundred first try
The 1,000th visitor ⇒ the one thousandth visitor
½ ⇒ one half
1½ cups ⇒ one and a half cups
1 1/2 cups ⇒ one and a half cups
2 3/4 miles ⇒ two and three quarters miles
⅔ of them ⇒ two thirds of them
5/8 and 1/3 ⇒ five eighths and one third
10-20 ⇒ ten to twenty
pages 10–20 ⇒ pages ten to twenty
1939–1945 ⇒ nineteen thirty nine to nineteen forty five
1939-45 ⇒ nineteen thirty nine to forty five
10% - 20% ⇒ ten percent twenty percent | ten percent to twenty percent
10%-20% ⇒ ten percent to twenty percent
10-20% of it ⇒ ten to twenty percent of it
They won 3-2. ⇒ they won three to two
1-2-3 go ⇒ one two three go
a ratio of 3:1 ⇒ a ratio of three to one
16:9 ⇒ sixteen to nine
a 5-year-old boy ⇒ a five year old boy
1080p and 4K ⇒ ten eighty p and four k
720p ⇒ seven twenty p
1920x1080 ⇒ nineteen twenty by ten eighty
2x faster ⇒ two times faster
MP3, B2B, 3D and A4 ⇒ mp three b two b three d and a four
COVID-19 and GPT-4 ⇒ covid nineteen and gpt four
a F-16 ⇒ a f sixteen
#1 ⇒ number one
No. 5 ⇒ number five
We are #1! ⇒ we are number one
50/50 chance, 9/11 ⇒ fifty fifty chance nine eleven
10/10 ⇒ ten out of ten
my 401k ⇒ my four oh one k
١٢٣ and १२ ⇒ one hundred twenty three and twelve
① and Ⅳ ⇒ one and four
There are 7B weights, 10M users and 3bn stars. ⇒ there are seven b weights ten million users and three billion stars
4111 1111 1111 1111 ⇒ four one one one one one one one one one one one one one one one
1, 2, 3 ⇒ one two three
1,2,3 ⇒ one two three
(5) ⇒ five
1 000 000 people ⇒ one million people
100s of people, 1,000s of users ⇒ hundreds of people thousands of users
100 000 people and 1.000.000 more ⇒ one hundred thousand people and one million more
1/2/3 ⇒ one slash two slash three
Room 101. ⇒ room one hundred one
"""

DATES = """
2024-03-05T17:05:00Z ⇒ march fifth twenty twenty four seventeen oh five utc
2024-03-05 09:08 ⇒ march fifth twenty twenty four nine oh eight
2024-03-05T17:05:30+02:00 ⇒ march fifth twenty twenty four seventeen oh five thirty utc plus two
1/2/2025 ⇒ january second twenty twenty five
12/31/99 ⇒ december thirty first nineteen ninety nine
31/12/1999 ⇒ december thirty first nineteen ninety nine
13.06.2024 ⇒ june thirteenth twenty twenty four
June 13, 2024 was hot. ⇒ june thirteenth twenty twenty four was hot
June 13 was hot. ⇒ june thirteenth was hot
On Jan. 5 it began. ⇒ on january fifth it began
Sept 3rd ⇒ september third
13 June 2024 ⇒ the thirteenth of june twenty twenty four
the 4th of July ⇒ the fourth of july
5 May ⇒ the fifth of may
June 2024 ⇒ june twenty twenty four
June 13-15, 2024 ⇒ june thirteenth to fifteenth twenty twenty four
May 5, 2020 ⇒ may fifth twenty twenty
March 5km ⇒ march five kilometers
In Feb. we left. ⇒ in february we left
5:00 ⇒ five o'clock
5:00 PM ⇒ five pm
5 p.m. ⇒ five pm
9 a.m. sharp ⇒ nine am sharp
9pm and 7.30pm and 20:15h ⇒ nine pm and seven thirty pm and twenty fifteen
at 12:30 a.m. we ⇒ at twelve thirty am we
17:00 ⇒ seventeen hundred
00:30 ⇒ zero thirty
0:00 ⇒ midnight
1:02:03 ⇒ one oh two oh three
9:30-10:45 ⇒ nine thirty to ten forty five
9-5pm ⇒ nine to five pm
9am–5pm ⇒ nine am to five pm
1h 30m ⇒ one hour thirty minutes
2h15m10s ⇒ two hours fifteen minutes ten seconds
Oct. 31 - Nov. 2 ⇒ october thirty first to november second
on 3/5 at noon, on 3/4 of them ⇒ on march fifth at noon on three quarters of them
12/25 and 5/16 ⇒ december twenty fifth and five sixteenths
2024.03.05, 2024-03 ⇒ march fifth twenty twenty four march twenty twenty four
2004-05 ⇒ two thousand four to oh five
2/30/2024 ⇒ two slash thirty slash twenty twenty four
class of '05 and '98 ⇒ class of oh five and ninety eight
25:00, 17h30, 2m30s ⇒ twenty five oh oh seventeen thirty two minutes thirty seconds
Gen. 1:1-3 and Romans 8:28 ⇒ genesis one one to three and romans eight twenty eight
they won 21:19 ⇒ they won twenty one to nineteen
2024-13-45 ⇒ two thousand twenty four thirteen forty five | twenty twenty four thirteen forty five
"""

NAMED = """
(555) 123-4567 ⇒ five five five one two three four five six seven
+1-800-555-0199 ⇒ plus one eight zero zero five five five zero one nine nine
+44 20 7946 0958 ⇒ plus four four two zero seven nine four six zero nine five eight
+49 (0)30 123456 ⇒ plus four nine zero three zero one two three four five six
555-123-4567 ⇒ five five five one two three four five six seven
555.123.4567 ⇒ five five five one two three four five six seven
1-800-FLOWERS ⇒ one eight zero zero flowers
100-2000 steps ⇒ one hundred to two thousand steps
100-2000 ⇒ one hundred to two thousand
0800 123 456 ⇒ zero eight zero zero one two three four five six
123-45-6789 ⇒ one two three four five six seven eight nine
978-3-16-148410-0 ⇒ nine seven eight three one six one four eight four one zero zero
192.168.1.1 ⇒ one hundred ninety two dot one hundred sixty eight dot one dot one
v2.0 and v3 ⇒ version two point zero and version three
version 1.2.3 ⇒ version one point two point three
Python 3.11.2 ⇒ python three point eleven point two
a Boeing 737-800 ⇒ a boeing seven thirty seven eight hundred
call 555 1234 ⇒ call five five five one two three four
a V8 engine ⇒ a v eight engine
1.2.3-beta ⇒ one point two point three beta
"""

MONEY = """
$5 ⇒ five dollars
$1 ⇒ one dollar
$1.00 ⇒ one dollar
$0.99 ⇒ ninety nine cents
$0.01 ⇒ one cent
$5 million ⇒ five million dollars
$3.5bn ⇒ three point five billion dollars
€2k ⇒ two thousand euros
$5m ⇒ five million dollars
$1.2B deal ⇒ one point two billion dollars deal
a $1.2B deal ⇒ a one point two billion dollar deal
a $5 bill ⇒ a five dollar bill
US$20 ⇒ twenty us dollars
₹500 ⇒ five hundred rupees
₩1,000 ⇒ one thousand won
₿2 ⇒ two bitcoins
£1.50 ⇒ one pound and fifty pence
£0.01 ⇒ one penny
-$5.25 ⇒ minus five dollars and twenty five cents
$-5 ⇒ minus five dollars
3,50 € ⇒ three euros and fifty cents
€3,50 ⇒ three euros and fifty cents
20 USD ⇒ twenty us dollars
EUR 5 ⇒ five euros
100 EUR. ⇒ one hundred euros
5€ ⇒ five euros
$5-10 ⇒ five to ten dollars
$5-$10 ⇒ five to ten dollars
$5–10 million ⇒ five to ten million dollars
10-20 USD ⇒ ten to twenty us dollars
$1,234.56 ⇒ one thousand two hundred thirty four dollars and fifty six cents
50¢ ⇒ fifty cents
$5/month ⇒ five dollars per month
C$10 ⇒ ten canadian dollars
$5M–$10M, $1.2M-$1.5M ⇒ five million dollars to ten million dollars one point two million dollars to one point five million dollars
€5/m², $3 per lb, 99p ⇒ five euros per square meter three dollars per pound ninety nine pence
It is $$$ ⇒ it is dollars
20 €5 ⇒ twenty five euros
"""

UNITS = """
10mg and 5 kg ⇒ ten milligrams and five kilograms
1 km ⇒ one kilometer
70 mph ⇒ seventy miles per hour
60fps ⇒ sixty frames per second
10Gbps and 100 Mbps ⇒ ten gigabits per second and one hundred megabits per second
30µs ⇒ thirty microseconds
30μs ⇒ thirty microseconds
8MP ⇒ eight megapixels
5 ft 10 in tall ⇒ five feet ten inches tall
6 ft. of snow ⇒ six feet of snow
100% ⇒ one hundred percent
5‰ ⇒ five per mille
3.5GHz ⇒ three point five gigahertz
90 km/h ⇒ ninety kilometers per hour
9.8 m/s² ⇒ nine point eight meters per second squared
5 m² ⇒ five square meters
5m² and 3 cm³ ⇒ five square meters and three cubic centimeters
12 V battery ⇒ twelve volts battery
a 60W bulb ⇒ a sixty watt bulb
3 kWh ⇒ three kilowatt hours
20℃ ⇒ twenty degrees celsius
20 ° C ⇒ twenty degrees celsius
a 90° turn ⇒ a ninety degree turn
40–60°C ⇒ forty to sixty degrees celsius
5km-10km ⇒ five kilometers to ten kilometers
He is 5'11". ⇒ he is five foot eleven
a 12" pizza ⇒ a twelve inch pizza
He said "give me 5" and left. ⇒ he said give me five and left
a 5-km run ⇒ a five kilometer run
100 µg/mL ⇒ one hundred micrograms per milliliter
16px ⇒ sixteen pixels
512 MB of 2 TB ⇒ five hundred twelve megabytes of two terabytes
1024 MB ⇒ one thousand twenty four megabytes
2 in 3 ⇒ two in three
5s ⇒ five seconds
3 min. later ⇒ three minutes later
It weighs 5 lb. ⇒ it weighs five pounds
0.5 mm ⇒ zero point five millimeters
48kHz ⇒ forty eight kilohertz
5-10kg, 15%—20%, 5—10, 1..10 ⇒ five to ten kilograms fifteen percent to twenty percent five to ten one to ten
5'30" pace, 12'6" by 10', 5'11 ⇒ five minutes thirty seconds pace twelve foot six by ten feet five foot eleven
40°42′46″N ⇒ forty degrees forty two minutes forty six seconds north
10 Mbit/s, 12 VDC, 5 µF, 5 N·m ⇒ ten megabits per second twelve volts dc five microfarads five newton meters
5 kgs, 5 atm, a 5A fuse ⇒ five kilograms five atmospheres a five amp fuse
5 in. of rain, 5 sq. mi. ⇒ five inches of rain five square miles
¾ tsp, 3/8" bolt ⇒ three quarters teaspoon three eighths inch bolt
45° angle, 10 cm x 20 cm ⇒ forty five degree angle ten centimeters by twenty centimeters
4/5 stars, 9/10 dentists, 4.5/5 ⇒ four out of five stars nine out of ten dentists four point five out of five
3/4ths, 1/3rd, 10 / 2 ⇒ three quarters one third ten divided by two
1999 more steps, 2010 very old cars ⇒ one thousand nine hundred ninety nine more steps two thousand ten very old cars
100 sq ft ⇒ one hundred square feet
1 lb ⇒ one pound
"""

FORMULAS = """
1e6 ⇒ one times ten to the power of six
1.5e-3 ⇒ one point five times ten to the power of minus three
10^6 ⇒ ten to the power of six
10⁶ ⇒ ten to the power of six
x^2 + y^3 ⇒ x squared plus y cubed
10⁻³ ⇒ ten to the power of minus three
H₂O ⇒ h two o
CO₂ and CO2 ⇒ c o two and c o two
5>3 and 3<5 ⇒ five greater than three and three less than five
2*3 ⇒ two times three
2 * 3 ⇒ two times three
3×4 ⇒ three times four
6÷2 ⇒ six divided by two
6/2=3 ⇒ six divided by two equals three
5 - 3 = 2 ⇒ five minus three equals two
±5 ⇒ plus or minus five
√2 ⇒ square root of two
a ≤ b ≥ c ≠ d ⇒ a less than or equal to b greater than or equal to c not equal to d
a -> b → c ⇒ a to b to c
x >= 3 && y != 4 ⇒ x greater than or equal to three and y not equal to four
∞ ⇒ infinity
π≈3.14 ⇒ pi approximately three point one four
α and β ⇒ alpha and beta
+5 ⇒ plus five
x = 5 ⇒ x equals five
50% ⇒ fifty percent
§ 5 ⇒ section five
© 2024 Acme™ ⇒ copyright twenty twenty four acme
f(x) ⇒ f x
x² + 2x - 3 = 0 ⇒ x squared plus two x minus three equals zero
5 x 3 = 15 ⇒ five times three equals fifteen
a plate, 5 x 3 cm ⇒ a plate five by three centimeters
H~2~O, un*believ*able, a*b ⇒ h two o unbelievable a times b
a^b | ^, ^_^ ok ⇒ a to the power of b ok
Na⁺ ⇒ na plus
0xFF ⇒ zero x ff
"""

WEB = """
See www.example.com/docs/intro.html now ⇒ see example dot com slash docs slash intro dot html now
https://my-site.co.uk/ ⇒ my dash site dot co dot uk
github.com/user/repo ⇒ github dot com slash user slash repo
Go to example.com. ⇒ go to example dot com
http://localhost:8080/ok ⇒ localhost colon eight thousand eighty slash ok
https://x.com/a/0f83ab23c9d8e7?utm=1 ⇒ x dot com slash a
first.last+tag@sub.example.org ⇒ first dot last plus tag at sub dot example dot org
README.md ⇒ readme dot md
main.py and node.js ⇒ main dot py and node dot js
my_file-v2.tar.gz ⇒ my file version two dot tar dot gz
/usr/bin ⇒ slash usr slash bin
Edit ~/.config/app.toml. ⇒ edit tilde slash dot config slash app dot toml
C:\\Users ⇒ c backslash users
#ff0000 ⇒ hash f f zero zero zero zero
camelCase and getElementById ⇒ camel case and get element by id
snake_case_name ⇒ snake case name
__init__ ⇒ init
well-known state-of-the-art ⇒ well known state of the art
C++, C# and F# ⇒ c plus plus c sharp and f sharp
.NET ⇒ dot net
os.path.join ⇒ os dot path dot join
#100DaysOfCode ⇒ hashtag one hundred days of code
@user, hi ⇒ at user hi
iPhone and macOS ⇒ iphone and mac os
TextToSpeechEngine ⇒ text to speech engine
"""

SHORT = """
Mr. and Mrs. Jones ⇒ mister and missus jones
Ms Day and Ms. Day read Fig. 2a of the README ⇒ ms day and ms day read figure two a of the readme
Mr Smith and Dr Who ⇒ mister smith and doctor who
Sen. Warren and Gov. Brown ⇒ senator warren and governor brown
Mt. Everest ⇒ mount everest
Main St. is long ⇒ main street is long
St. Mary ⇒ saint mary
The Dr. said 42nd St. is near ⇒ the doctor said forty second street is near
He lives at 12 Main St. Springfield ⇒ he lives at twelve main street springfield
Sunset Blvd. and 5th Ave. ⇒ sunset boulevard and fifth avenue
Acme Inc. sells it ⇒ acme incorporated sells it
approx. 5 ⇒ approximately five
cats vs. dogs ⇒ cats versus dogs
cats vs dogs ⇒ cats versus dogs
i.e. this ⇒ that is this
Fig. 5 and Vol. 2 ⇒ figure five and volume two
pp. 10–20 and p. 5 ⇒ pages ten to twenty and page five
the U.S. economy ⇒ the us economy
a Ph.D. student ⇒ a phd student
J. R. R. Tolkien ⇒ j r r tolkien
w/ milk, w/o sugar ⇒ with milk without sugar
he/she ⇒ he slash she
AT&T and R&D ⇒ at and t and r and d
Q&A ⇒ q and a
Jr. Dr. is long, 5th St. NW and Main St. Bridge ⇒ junior drive is long fifth street nw and main street bridge
Mon.–Fri., Jan–Mar ⇒ monday to friday january to march
Thurs. is free, Mon, Tue, Wed ⇒ thursday is free monday tuesday wednesday
Fri. and Sat. are full ⇒ friday and saturday are full
We sat. The Sun. Wed him on Sat. ⇒ we sat the sun wed him on saturday
viz. this, cf. that, ed. by him ⇒ namely this compare that edited by him
asst. mgr., ext. 5, min. 5 ⇒ assistant manager extension five minimum five
youʼ're here ⇒ you're here
vol. I, ch. IV, pp. xii-xiv, ref. viii ⇒ volume one chapter four pages twelve to fourteen reference eight
Part I liked, Page I read ⇒ part i liked page i read
Volume XL, Chapter XLII and Scene ii ⇒ volume forty chapter forty two and scene two
Chapters II to IV, Mk II ⇒ chapters two to four mark two
the XIX century, © MMXXIV ⇒ the nineteenth century copyright twenty twenty four
(i) one, (ii) two, (iii) three ⇒ one one two two three three
f(x), (i) and (v) ⇒ f x i and v
Malcolm X and Malcolm III ⇒ malcolm x and malcolm the third
Class C, Appendix D, Type DM ⇒ class c appendix d type dm
Martin Luther King Jr. spoke ⇒ martin luther king junior spoke
Henry VIII and Louis XIV ⇒ henry the eighth and louis the fourteenth
Elizabeth II's reign ⇒ elizabeth the second's reign
Charles V ruled ⇒ charles the fifth ruled
Elizabeth I. ⇒ elizabeth the first
John Paul II ⇒ john paul the second
Rocky III ⇒ rocky three
Super Bowl LIV ⇒ super bowl fifty four
Part I ⇒ part one
I think I am. ⇒ i think i am
Mary and I went. ⇒ mary and i went
Give it to Mr. V please ⇒ give it to mister v please
an IV drip ⇒ an iv drip
Type II diabetes ⇒ type two diabetes
Mon. to Fri., 9-5 ⇒ monday to friday nine to five
the max. is 5 ⇒ the maximum is five
Apples, pears, etc. are fruit. ⇒ apples pears et cetera are fruit
"""

LOUD = """
STOP DOING THAT NOW ⇒ stop doing that now
NASA AND THE FBI ARE HERE ⇒ nasa and the fbi are here
I'M VERY ANGRY ⇒ i'm very angry
MEET AT 9:30PM IN JUNE ⇒ meet at nine thirty pm in june
WORLD WAR II BEGAN ⇒ world war two began
IBM ⇒ ibm
HELP US! ⇒ help us
IT'S US ⇒ it's us
IN THE US ⇒ in the us
MIX IT IN THE DIM LIGHT ⇒ mix it in the dim light
This is VERY good ⇒ this is very good
"""

BRITISH = """
1/2/2025 ⇒ the first of february twenty twenty five
It has 3,497 items. ⇒ it has three thousand four hundred and ninety seven items
Run 5km with 2 l ⇒ run five kilometres with two litres
Due 2024-03-05. ⇒ due the fifth of march twenty twenty four
June 13 ⇒ june thirteenth
the 2024-04-03 date ⇒ the third of april twenty twenty four date
the 3/4/2024 date ⇒ the third of april twenty twenty four date
on 14/3 we met ⇒ on the fourteenth of march we met
"""

SPANISH = """
Cuesta 3,50 €. ⇒ cuesta tres euros con cincuenta céntimos
Son las 9:30. ⇒ son las nueve y treinta
Son 1.234,5 km. ⇒ son mil doscientos treinta y cuatro coma cinco kilómetros
El 05/03/2024 ⇒ el cinco de marzo de dos mil veinticuatro
El 1 de mayo ⇒ el uno de mayo
¿Qué? ¡Sí! ⇒ qué sí
21 años y 21 personas ⇒ veintiún años y veintiuna personas
1 kg ⇒ un kilogramo
la 1ª vez y el 2º piso ⇒ la primera vez y el segundo piso
el 3er día ⇒ el tercer día
50% ⇒ cincuenta por ciento
$1.000.000 ⇒ un millón de dólares
2 M€ ⇒ dos millones de euros
La Sra. García y el Dr. Ruiz ⇒ la señora garcía y el doctor ruiz
pan & vino ⇒ pan y vino
2+2=4 ⇒ dos más dos igual a cuatro
-5 °C ⇒ menos cinco grados celsius
ana@ejemplo.es ⇒ ana arroba ejemplo punto es
90 km/h ⇒ noventa kilómetros por hora
Ver https://example.com/a. ⇒ ver example punto com barra a
10-20 ⇒ diez a veinte
3 m² ⇒ tres metros cuadrados
3/4, 1/3, 7/3 ⇒ tres cuartos un tercio siete barra tres
Felipe II, Isabel II, Alfonso XIII, Carlos V ⇒ felipe segundo isabel segunda alfonso trece carlos quinto
siglo XIX, capítulo IV ⇒ siglo diecinueve capítulo cuatro
la Guerra Mundial II ⇒ la guerra mundial segunda
"""

FRENCH = """
Il coûte 3,50 €. ⇒ il coûte trois euros et cinquante centimes
À 9h30 et 14 h 05 ⇒ à neuf heures trente et quatorze heures cinq
À 1:00 ⇒ à une heure
12 500 habitants ⇒ douze mille cinq cents habitants
Pi vaut 3,14. ⇒ pi vaut trois virgule quatorze
1,05 ⇒ un virgule zéro cinq
Le 1er mars 2024 ⇒ le premier mars deux mille vingt quatre
Le 14/07/1789 ⇒ le quatorze juillet mille sept cent quatre vingt neuf
la 1re et la 2e ⇒ la première et la deuxième
M. Dupont et Mme Durand ⇒ monsieur dupont et madame durand
20 °C ⇒ vingt degrés celsius
5 % ⇒ cinq pour cent
2 millions d'€ ⇒ deux millions d'euros
5 Go ⇒ cinq gigaoctets
n° 5 ⇒ numéro cinq
06 12 34 56 78 ⇒ zéro six un deux trois quatre cinq six sept huit
Tom & Léa ⇒ tom et léa
1 livre ⇒ une livre
3/4, 2/3, 1/3 ⇒ trois quarts deux tiers un tiers
Louis XIV, François Ier, Henri IV ⇒ louis quatorze françois premier henri quatre
le XIXe siècle, chapitre V ⇒ le dix neuvième siècle chapitre cinq
"""

ITALIAN = """
Costa 3,50 €. ⇒ costa tre euro e cinquanta centesimi
Alle 9:30 ⇒ alle nove e trenta
1.000 km ⇒ mille chilometri
Il Sig. Rossi e la Dott.ssa Bianchi ⇒ il signor rossi e la dottoressa bianchi
la 2ª volta ⇒ la seconda volta
Il 25/04/1945 ⇒ il venticinque aprile millenovecentoquarantacinque
90% ⇒ novanta per cento
mare, sole, ecc. ⇒ mare sole eccetera
3,14 ⇒ tre virgola quattordici
1 m ⇒ un metro
3/4, 1/3 ⇒ tre quarti un terzo
Luigi XIV, Elisabetta II, il XIX secolo ⇒ luigi quattordicesimo elisabetta seconda il diciannovesimo secolo
"""

PORTUGUESE = """
Custa R$ 3,50. ⇒ custa três reais e cinquenta centavos
Às 9h30 ⇒ às nove horas e trinta
Às 21:05 ⇒ às vinte e uma horas e cinco
Em 12/10/2020 ⇒ em doze de outubro de dois mil e vinte
o 1º lugar ⇒ o primeiro lugar
R$ 2 milhões ⇒ dois milhões de reais
1.500 pessoas ⇒ mil quinhentas pessoas | mil e quinhentos pessoas | mil e quinhentas pessoas
O Sr. Silva e a Dra. Lima ⇒ o senhor silva e a doutora lima
-3,5 °C ⇒ menos três vírgula cinco graus celsius
a = b ⇒ a igual a b
2 casas, 22 pessoas, 2 dias ⇒ duas casas vinte e duas pessoas dois dias
3/4, 2/3 ⇒ três quartos dois terços
Pedro II, século XIX ⇒ pedro segundo século dezenove
"""

OTHERS = [
    ("hi", "90% में 3,497 और $100 है।", "90 प्रतिशत में 3497 और 100 डॉलर है."),
    ("hi", "9:30 बजे, 1/2 कप, 10-20, डॉ.", "9 बजकर 30 मिनट, आधा कप, 10 से 20, डॉक्टर"),
    ("ja", "3,500円の90%です。", "3,500円の90%です。"),
    ("zh", "有90%的人，$100。", "有90%的人，$100。"),
    ("zh", "我在KFC里 １２", "我在KFC里 12"),
    ("zh", "1/2 & *2*", "1/2 和 2 "),
]

TABLES = {
    "en-us": [MEASURED, NUMBERS, DATES, NAMED, MONEY, UNITS, FORMULAS, WEB, SHORT, LOUD],
    "en-gb": [BRITISH],
    "es": [SPANISH],
    "fr-fr": [FRENCH],
    "it": [ITALIAN],
    "pt-br": [PORTUGUESE],
}
GOLDEN = [
    (language, written, said)
    for language, tables in TABLES.items()
    for table in tables
    for written, said in rows(table)
]


@pytest.mark.parametrize(("language", "written", "said"), GOLDEN)
def test_what_is_written_is_said(language: str, written: str, said: str) -> None:
    made = spoken(written, language)
    assert words(made) in [words(reading) for reading in said.split(" | ")]


@pytest.mark.parametrize(("language", "written", "said"), OTHERS)
def test_other_scripts_lose_what_their_g2p_cannot_read(
    language: str, written: str, said: str
) -> None:
    assert spoken(written, language) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Back at 9:30PM.", "Back at nine thirty PM."),
        ("He left at 5 p.m.", "He left at five PM."),
        ("At 5 p.m. he left.", "At five PM he left."),
        ("Mac, Linux, etc.", "Mac, Linux, et cetera."),
        ("Linux, etc. Then this.", "Linux, et cetera. Then this."),
        ("Linux, etc., and this", "Linux, et cetera, and this"),
        ("It is Acme Inc.", "It is Acme Incorporated."),
        ("in the U.S.", "in the US."),
        ("the U.S. now", "the US now"),
        ("No!!!!!! What?!?!?", "No!!! What?!?"),
        ("Well... yes. . . no", "Well… yes… no"),
        ("one -- two - three – four—five", "one — two — three — four — five"),
        ("[one] {two} «three»", "(one) (two) “three”"),
        ("a , b ;c", "a, b; c"),
        ('one: two, (three) "four"', 'one: two, (three) "four"'),
        ("=====", " — "),
        ("a *** b ###", "a b "),
        ("*bold* _it_ ~x~", "bold it x "),
        ("well-known -ish", "well-known ish"),
        ("• first", "first"),
        ("call 555-0123, ok", "call five five five, zero one two three, ok"),
        ("see (https://x.org/a).", "see (x dot org slash a)."),
        ("don't 'quote' it", "don't 'quote' it"),
        ("2024-03-05", "March fifth, twenty twenty four"),
        ("I ❤ it", "I it"),
    ],
)
def test_marks_are_where_the_pauses_are(written: str, said: str) -> None:
    assert spoken(written) == said


@pytest.mark.parametrize(
    ("urls", "said"),
    [
        ("short", "see x dot org slash a b"),
        ("full", "see https colon slash slash x dot org slash a dash b question mark q equals one"),
        ("skip", "see"),
    ],
)
def test_addresses_are_read_as_asked(urls: Urls, said: str) -> None:
    assert words(spoken("see https://x.org/a-b?q=1.", urls=urls)) == said


@pytest.mark.parametrize("language", ["en-us", "es", "fr-fr", "it", "pt-br"])
def test_every_word_of_a_number_stands_for_its_characters(language: str) -> None:
    text = "ab $100 cd 20% ef"
    made = normalised(Spanned.of(text), language)
    for word in ("ab", "cd", "ef"):
        at = made.text.index(word)
        assert made.origin(at, at + 2) == (text.index(word), text.index(word) + 2)
    between = made.text.index("ab") + 3, made.text.index("cd") - 1
    assert made.origin(*between) == (3, 7)


#: what the rules look for, and what could confuse them
PIECES = st.sampled_from(
    [
        "$",
        "€",
        "%",
        "&",
        "@",
        "#",
        "*",
        "/",
        "\\",
        "^",
        "~",
        "-",
        "–",
        "—",
        ".",
        ",",
        ":",
        ";",
        "!",
        "?",
        "(",
        ")",
        "[",
        "]",
        '"',
        "'",
        "’",
        "+",
        "=",
        "<",
        ">",
        "²",
        "½",
        "°",
        "£",
        "…",
        "_",
        "|",
        "1",
        "2",
        "05",
        "12",
        "1999",
        "2024",
        "3,497",
        "1,0",
        ".5",
        "3.14",
        "00",
        "1e6",
        "km",
        "m",
        "kg",
        "GB",
        "mph",
        "°C",
        "am",
        "PM",
        "a.m.",
        "st",
        "th",
        "rd",
        "s",
        "'s",
        "v",
        "x",
        "A",
        "I",
        "IV",
        "VIII",
        "Henry",
        "Chapter",
        "World",
        "War",
        "St.",
        "Dr.",
        "Mr.",
        "etc.",
        "e.g.",
        "Jan.",
        "June",
        "May",
        "No.",
        "Inc.",
        "U.S.",
        "vs.",
        "w/",
        "and/or",
        "24/7",
        "http://",
        "www.",
        "a.com",
        ".com",
        "jo@x.org",
        "main.py",
        "/usr",
        "snake_case",
        "camelCase",
        "C++",
        "THE",
        "BIG",
        "DOG",
        "NASA",
        "é",
        "ñ",
        "ह",
        "१",
        "Ⅳ",
        "①",
        "１",
        "％",
        "-5",
        "10-20",
        "555-0123",
        "9:30",
        "1/2",
        "$1.2M",
        "million",
        "hundred",
        "Sr.",
        "M.",
        "n°",
        "1º",
        "2e",
        "9h30",
        "R$",
        "😀",
        "→",
        "√",
        "π",
        "‰",
        "™",
    ]
)
MIXED = st.lists(PIECES | st.sampled_from(["", " "]) | st.text(max_size=3), max_size=30).map(
    "".join
) | st.lists(PIECES, max_size=15).map(" ".join)
WESTERN = st.sampled_from(["en-us", "en-gb", "es", "fr-fr", "it", "pt-br"])
URLS = st.sampled_from(["short", "full", "skip"])


@given(MIXED, WESTERN | st.sampled_from(["hi", "ja", "zh"]), URLS)
@example("See https://example.co199½½9.", "es", "short")  # digits inside what was replaced
def test_anything_keeps_its_place(text: str, language: str, urls: Urls) -> None:
    made = normalised(Spanned.of(text, 7), language, urls=urls)
    assert len(made.text) == len(made.spans)
    assert all(7 <= start <= end <= 7 + len(text) for start, end in made.spans)
    for (start, end), (next_start, next_end) in pairwise(made.spans):
        assert start <= next_start
        assert end <= next_end


@given(MIXED, WESTERN)
def test_no_digit_and_no_sign_is_left(text: str, language: str) -> None:
    made = spoken(text, language)
    assert not re.search(r"\d", made)
    assert not set(made) & set("$€£¥%&@#*/\\^~+=<>|[]{}_§©°×÷²³")


@given(st.text(alphabet="0123456789abcxyz ,.-:/$%", max_size=60))
def test_no_digit_is_lost(text: str) -> None:
    """Whatever has a digit says a word for it."""
    words_of_digits = re.compile(
        "zero|one|two|three|four|five|six|seven|eight|nine|ten|el|tw|th|oh|mid|fi|ni"
    )
    if re.search(r"\d", text):
        assert words_of_digits.search(spoken(text, urls="full"))


PLAIN = st.lists(st.sampled_from(["the", "quick,", "fox's", "jump", "over", "it.", "well-known"]))


@given(PLAIN.map(" ".join), WESTERN)
def test_plain_words_stay_as_they_are(text: str, language: str) -> None:
    assert spoken(text, language) == text


ROWS = """
    1 $ a. 1, 1. a@ a- 1- /a _ 1" +1 (1) 1: aB . ' ½ ² 1/ x^ 5'5 1e A. http://a/ 😀 St␣ Jan␣1␣ ABA␣ ␣
    (i) 1-1␣km␣ Mon– xii- II␣to␣ 1/2" ab*ab ^_ 1m1s 555␣ #a1 1° John␣1:
"""


@pytest.mark.parametrize("language", ["en-us", "fr-fr", "hi"])
@pytest.mark.parametrize("piece", ROWS.split())
def test_long_rows_of_anything_are_read_to_their_end(piece: str, language: str) -> None:
    """A quadratic rule would take a minute here."""
    piece = piece.replace("␣", " ")
    made = spoken(piece * (20_000 // len(piece)) + " end", language)
    assert made.endswith("end")


@pytest.mark.parametrize(
    "word", ["end)—start", "said:“Hi”(quietly", "fox(jumps)over", "hello…world"]
)
def test_marks_do_not_join_words(word: str) -> None:
    assert all(len(re.findall(r"\w+", piece)) <= 1 for piece in spoken(word).split())


def test_a_range_with_its_unit_is_one_piece() -> None:
    made = normalised(Spanned.of("at 40–60°C now"), "en-us")
    assert made.text == "at forty to sixty degrees Celsius now"
    assert set(made.spans[3 : made.text.index(" now")]) == {(3, 10)}


def test_symbols_that_vanish_are_listed() -> None:
    assert unread(Spanned.of("I ♥ it, 5 € + 2"), "en-us") == [(2, 3)]
    assert unread(Spanned.of("plain"), "en-us") == []
