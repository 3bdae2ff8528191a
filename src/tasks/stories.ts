/**
 * The stories behind the built-in word problems: each draws its people, things and numbers, tells a question, and
 * records the steps that answer it. Pure functions of a `Draw`; they may not read files or draw from elsewhere.
 *
 * A story never states its answer: it records operations, and the numbers come out of them. A draw that would need
 * a fraction or a negative number gives NaN, which spoils that draw; the generator then draws again.
 */

import type { Person } from './cast.ts'

export type Operation = '+' | '-' | '*' | '/'

/** What a story draws from. Every call draws anew; people and things do not repeat within a problem. */
export interface Draw {
  person(): Person
  /** A countable thing, in the plural. */
  thing(): string
  /** Something sold by the piece: its singular and its plural. */
  goods(): readonly [string, string]
  /** A container, in the plural. */
  container(): string
  /** A quantity in the level's range. */
  num(): number
  /** A multiplier or divisor in the level's range, at least 2. */
  few(): number
  pick<T>(options: readonly T[]): T
  /** Records `a op b` and returns its value. In `says`, `#` stands for the equation, as in `Mia has # pens.` */
  step(a: number, op: Operation, b: number, says: string): number
}

export interface Story {
  name: string
  /** Fewest and most steps that it can take. */
  steps: readonly [number, number]
  /** Tells a question; `steps` is how many steps to take, within the story's bounds. */
  tell(draw: Draw, steps: number): string
}

/** Starts a sentence with a word. */
const capital = (word: string) => word[0].toUpperCase() + word.slice(1)

/** A pile of things that grows and shrinks: `events` in a row, each a sentence and a step. */
function pileOf(draw: Draw, events: number): string {
  const { name, he, his, him } = draw.person()
  const things = draw.thing()
  const He = capital(he)
  let pile = draw.num()
  const told = [`${name} ${draw.pick(['has', 'starts with', 'owns'])} ${pile} ${things}.`]
  const has = `Now ${name} has # ${things}.`
  const kinds = draw.pick([
    ['finds', 'gives', 'doubles', 'loses'],
    ['gets', 'splits', 'sells', 'finds'],
    ['loses', 'gets', 'gives', 'doubles'],
    ['sells', 'doubles', 'finds', 'splits'],
    ['doubles', 'loses', 'gets', 'gives'],
    ['gets', 'sells', 'splits', 'loses'],
  ])
  for (const kind of kinds.slice(0, events)) {
    const n = draw.num()
    if (kind === 'finds') {
      told.push(`${He} finds ${n} more.`)
      pile = draw.step(pile, '+', n, has)
    } else if (kind === 'gets') {
      const giver = draw.pick(['aunt', 'uncle', 'sister', 'brother'])
      told.push(`${capital(his)} ${giver} gives ${him} ${n} more.`)
      pile = draw.step(pile, '+', n, has)
    } else if (kind === 'gives') {
      told.push(`${He} gives ${n} to ${draw.person().name}.`)
      pile = draw.step(pile, '-', n, has)
    } else if (kind === 'loses') {
      told.push(`Then ${he} loses ${n}.`)
      pile = draw.step(pile, '-', n, has)
    } else if (kind === 'sells') {
      told.push(`${He} sells ${n} of them.`)
      pile = draw.step(pile, '-', n, has)
    } else if (kind === 'doubles') {
      const [word, times] = draw.pick([['twice', 2] as const, ['three times', 3] as const])
      told.push(`By summer ${he} has ${word} as many.`)
      pile = draw.step(pile, '*', times, has)
    } else {
      const friends = draw.few()
      told.push(`${He} puts them in ${friends} equal piles and keeps one pile.`)
      pile = draw.step(pile, '/', friends, has)
    }
  }
  return `${told.join(' ')} How many ${things} does ${name} have now?`
}

/** People who get on and off something, `events` times. */
function riders(draw: Draw, events: number): string {
  const ride = draw.pick(['bus', 'train', 'boat', 'tram'])
  let on = draw.num() + draw.num()
  const told = [`A ${ride} starts with ${on} people.`]
  const names = ['first', 'second', 'third', 'last']
  for (let stop = 0; stop < events; stop++) {
    const n = draw.num()
    const off = stop % 2 === 0 || draw.pick([true, false])
    told.push(`At the ${names[stop]} stop ${n} people get ${off ? 'off' : 'on'}.`)
    on = draw.step(on, off ? '-' : '+', n, `After the ${names[stop]} stop there are # people.`)
  }
  return `${told.join(' ')} How many people are on the ${ride} now?`
}

export const stories: readonly Story[] = [
  { name: 'pile', steps: [2, 4], tell: pileOf },
  { name: 'riders', steps: [2, 4], tell: riders },
  {
    name: 'bags given away',
    steps: [2, 2],
    tell(d) {
      const { name, he } = d.person()
      const [things, bags, k, each, gone] = [d.thing(), d.container(), d.few(), d.few(), d.num()]
      const all = d.step(k, '*', each, `${name} has # ${things}.`)
      d.step(all, '-', gone, `There are # ${things} left.`)
      const verb = d.pick(['fills', 'buys', 'packs'])
      return `${name} ${verb} ${k} ${bags} with ${each} ${things} in each. Then ${he} gives away ${gone} ${things}. How many ${things} are left?`
    },
  },
  {
    name: 'bags added',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [things, bags, have, k, each] = [d.thing(), d.container(), d.num(), d.few(), d.few()]
      const more = d.step(k, '*', each, `The ${bags} hold # ${things}.`)
      const all = d.step(have, '+', more, `${name} then has # ${things}.`)
      const start = `${name} has ${have} ${things} and ${d.pick(['buys', 'gets', 'wins'])} ${k} ${bags} of ${each} ${things} each.`
      if (steps === 2) return `${start} How many ${things} does ${name} have in all?`
      const gone = d.num()
      d.step(all, '-', gone, `${name} has # ${things} left.`)
      return `${start} Later ${he} uses ${gone} ${things}. How many ${things} does ${name} have left?`
    },
  },
  {
    name: 'change',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [[one, many], k, price] = [d.goods(), d.few(), d.few()]
      const cost = d.step(k, '*', price, `The ${many} cost # dollars.`)
      if (steps === 2) {
        const paid = d.num()
        d.step(paid, '-', cost, `${name} gets # dollars back.`)
        return `${name} buys ${k} ${many} at ${price} dollars each and pays with ${paid} dollars. How many dollars does ${he} get back?`
      }
      const [[other], extra, paid] = [d.goods(), d.few(), d.num()]
      const all = d.step(cost, '+', extra, `Everything costs # dollars.`)
      d.step(paid, '-', all, `${name} has # dollars left.`)
      return `A ${one} costs ${price} dollars. ${name} has ${paid} dollars and buys ${k} ${many} and a ${other} for ${extra} dollars. How many dollars are left?`
    },
  },
  {
    name: 'two kinds of goods',
    steps: [3, 4],
    tell(d, steps) {
      const { name, he } = d.person()
      const [[, these], [, those], a, p, b, q] = [d.goods(), d.goods(), d.few(), d.few(), d.few(), d.few()]
      const first = d.step(a, '*', p, `The ${these} cost # dollars.`)
      const second = d.step(b, '*', q, `The ${those} cost # dollars.`)
      const all = d.step(first, '+', second, `Together they cost # dollars.`)
      const start = `${name} buys ${a} ${these} for ${p} dollars each and ${b} ${those} for ${q} dollars each.`
      if (steps === 3) return `${start} How many dollars does ${name} spend in all?`
      const paid = d.num() + d.num()
      d.step(paid, '-', all, `${name} has # dollars left.`)
      return `${start} If ${he} had ${paid} dollars, how many dollars are left?`
    },
  },
  {
    name: 'pooled and shared',
    steps: [2, 3],
    tell(d, steps) {
      const [a, b] = [d.person(), d.person()]
      const [things, k, x, y] = [d.thing(), d.few(), d.num(), d.num()]
      let all = d.step(x, '+', y, `Together they have # ${things}.`)
      let gone = ''
      if (steps === 3) {
        const n = d.num()
        all = d.step(all, '-', n, `After that there are # ${things}.`)
        gone = ` They lose ${n} of them.`
      }
      d.step(all, '/', k, `Each friend gets # ${things}.`)
      return `${a.name} has ${x} ${things} and ${b.name} has ${y} ${things}.${gone} They share them equally among ${k} friends. How many ${things} does each friend get?`
    },
  },
  {
    name: 'eaten then shared',
    steps: [2, 2],
    tell(d) {
      const { name, he } = d.person()
      const [verb, food] = d.pick([
        ['bakes', 'cookies'],
        ['picks', 'plums'],
        ['buys', 'nuts'],
        ['picks', 'pears'],
      ])
      const [k, each, eaten] = [d.few(), d.few(), d.num()]
      const start = k * each + eaten
      const left = d.step(start, '-', eaten, `${name} has # ${food} left.`)
      d.step(left, '/', k, `Each friend gets # ${food}.`)
      return `${name} ${verb} ${start} ${food}. After ${he} eats ${eaten}, ${he} shares the rest equally among ${k} friends. How many ${food} does each friend get?`
    },
  },
  {
    name: 'more than',
    steps: [2, 3],
    tell(d, steps) {
      const [a, b, c] = [d.person(), d.person(), d.person()]
      const [things, n, more] = [d.thing(), d.num(), d.num()]
      const verb = d.pick(['has', 'collects', 'sells', 'makes'])
      const other = d.step(n, '+', more, `${b.name} ${verb} # ${things}.`)
      const start = `${a.name} ${verb} ${n} ${things}. ${b.name} ${verb} ${more} more ${things} than ${a.name}.`
      const both = d.step(n, '+', other, `${a.name} and ${b.name} together: # ${things}.`)
      if (steps === 2) return `${start} How many ${things} is that together?`
      const third = d.num()
      d.step(both, '+', third, `All three together: # ${things}.`)
      return `${start} ${c.name} ${verb} ${third} ${things}. How many ${things} is that for all three?`
    },
  },
  {
    name: 'fewer than',
    steps: [2, 3],
    tell(d, steps) {
      const [a, b] = [d.person(), d.person()]
      const [things, n, fewer] = [d.thing(), d.num(), d.num()]
      const verb = d.pick(['has', 'finds', 'picks', 'paints'])
      const other = d.step(n, '-', fewer, `${b.name} ${verb} # ${things}.`)
      const all = d.step(n, '+', other, `Together: # ${things}.`)
      const start = `${a.name} ${verb} ${n} ${things}, and ${b.name} ${verb} ${fewer} fewer ${things} than ${a.name}.`
      if (steps === 2) return `${start} How many ${things} is that in all?`
      const k = d.few()
      d.step(all, '/', k, `Each bag holds # ${things}.`)
      return `${start} They put all the ${things} in ${k} equal bags. How many ${things} are in each bag?`
    },
  },
  {
    name: 'times as many',
    steps: [2, 3],
    tell(d, steps) {
      const [a, b] = [d.person(), d.person()]
      const [things, n] = [d.thing(), d.num()]
      const [word, times] = d.pick([
        ['twice', 2] as const,
        ['three times', 3] as const,
        ['four times', 4] as const,
      ])
      const verb = d.pick(['has', 'finds', 'makes', 'collects'])
      const other = d.step(n, '*', times, `${b.name} ${verb} # ${things}.`)
      const start = `${a.name} ${verb} ${n} ${things}. ${b.name} ${verb} ${word} as many ${things} as ${a.name}.`
      if (steps === 2) {
        const [question, op] = d.pick([
          [`How many ${things} is that in all?`, '+'] as const,
          [`How many more ${things} is that than ${a.name} ${verb}?`, '-'] as const,
        ])
        d.step(other, op, n, op === '+' ? `Together: # ${things}.` : `That is # more ${things}.`)
        return `${start} ${question}`
      }
      const all = d.step(n, '+', other, `Together: # ${things}.`)
      const gone = d.num()
      d.step(all, '-', gone, `There are # ${things} left.`)
      return `${start} They sell ${gone} of all these ${things}. How many ${things} are left?`
    },
  },
  {
    name: 'half as many',
    steps: [2, 3],
    tell(d, steps) {
      const [a, b] = [d.person(), d.person()]
      const [things, half] = [d.thing(), d.num()]
      const verb = d.pick(['sells', 'has', 'reads', 'makes'])
      const what = verb === 'reads' ? 'pages' : things
      const other = d.step(2 * half, '/', 2, `${b.name} ${verb} # ${what}.`)
      const all = d.step(2 * half, '+', other, `Together: # ${what}.`)
      const start = `${a.name} ${verb} ${2 * half} ${what} and ${b.name} ${verb} half as many ${what} as ${a.name}.`
      if (steps === 2) return `${start} How many ${what} is that in all?`
      const goal = d.num() + d.num()
      d.step(goal, '-', all, `They need # more ${what}.`)
      return `${start} They want ${goal} ${what} in all. How many more ${what} do they need?`
    },
  },
  {
    name: 'book',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [days, pages, total] = [d.few(), d.few(), d.num() + d.num()]
      const read = d.step(days, '*', pages, `${name} reads # pages.`)
      const left = d.step(total, '-', read, `There are # pages left.`)
      const start = `A book has ${total} pages. ${name} reads ${pages} pages a day for ${days} days.`
      if (steps === 2) return `${start} How many pages does ${he} still have to read?`
      const k = d.few()
      d.step(left, '/', k, `${name} must read # pages a day.`)
      return `${start} To read the rest in ${k} days, how many pages a day must ${he} read?`
    },
  },
  {
    name: 'saving up',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [[one], weeks, each] = [d.goods(), d.few(), d.few()]
      let saved = d.step(weeks, '*', each, `${name} saves # dollars.`)
      let start = `${name} saves ${each} dollars a week for ${weeks} weeks.`
      if (steps === 3) {
        const gift = d.num()
        saved = d.step(saved, '+', gift, `With the gift ${name} has # dollars.`)
        start += ` ${capital(he)} also gets a gift of ${gift} dollars.`
      }
      const cost = d.num()
      d.step(saved, '-', cost, `${name} has # dollars left.`)
      return `${start} Then ${he} buys a ${one} for ${cost} dollars. How many dollars are left?`
    },
  },
  {
    name: 'boxed up',
    steps: [2, 2],
    tell(d) {
      const { name } = d.person()
      const [things, boxes, per, k, spoiled] = [d.thing(), d.container(), d.few(), d.few(), d.num()]
      const good = d.step(per * k + spoiled, '-', spoiled, `There are # good ${things}.`)
      d.step(good, '/', per, `${name} fills # ${boxes}.`)
      return `${name} has ${per * k + spoiled} ${things}, but ${spoiled} of them are broken. The good ones go into ${boxes} of ${per}. How many ${boxes} does ${name} fill?`
    },
  },
  {
    name: 'garden rows',
    steps: [2, 3],
    tell(d, steps) {
      const { name } = d.person()
      const plants = d.pick(['trees', 'roses', 'beans', 'flowers'])
      const [rows, each, dead] = [d.few(), d.few(), d.num()]
      const all = d.step(rows, '*', each, `${name} plants # ${plants}.`)
      const left = d.step(all, '-', dead, `There are # ${plants} left.`)
      const start = `${name} plants ${rows} rows of ${each} ${plants}. Then ${dead} of them die.`
      if (steps === 2) return `${start} How many ${plants} are left?`
      const more = d.num()
      d.step(left, '+', more, `In the end there are # ${plants}.`)
      return `${start} Later ${name} plants ${more} more. How many ${plants} are there in the end?`
    },
  },
  {
    name: 'ages',
    steps: [2, 3],
    tell(d, steps) {
      const [a, b, c] = [d.person(), d.person(), d.person()]
      const [age, older, years] = [d.num(), d.few(), d.few()]
      const other = d.step(age, '+', older, `${b.name} is # years old.`)
      const start = `${a.name} is ${age} years old. ${b.name} is ${older} years older than ${a.name}.`
      if (steps === 2) {
        d.step(other, '+', years, `In ${years} years ${b.name} is # years old.`)
        return `${start} How old is ${b.name} in ${years} years?`
      }
      const twice = d.step(other, '*', 2, `${c.name} is # years old.`)
      d.step(twice, '-', age, `${c.name} is # years older.`)
      return `${start} ${c.name} is twice as old as ${b.name}. How many years older is ${c.name} than ${a.name}?`
    },
  },
  {
    name: 'rope',
    steps: [2, 2],
    tell(d) {
      const { name } = d.person()
      const what = d.pick(['rope', 'ribbon', 'wire', 'pipe'])
      const [k, each, over] = [d.few(), d.few(), d.num()]
      const used = d.step(k * each + over, '-', over, `${name} uses # meters.`)
      d.step(used, '/', k, `Each piece is # meters long.`)
      return `${name} cuts a ${what} of ${k * each + over} meters into ${k} equal pieces, and ${over} meters are left over. How many meters long is each piece?`
    },
  },
  {
    name: 'tickets',
    steps: [3, 3],
    tell(d) {
      const place = d.pick(['zoo', 'museum', 'show', 'pool'])
      const [adults, kids, p, q] = [d.few(), d.few(), d.few(), d.few()]
      const first = d.step(adults, '*', p, `The adults pay # dollars.`)
      const second = d.step(kids, '*', q, `The children pay # dollars.`)
      d.step(first, '+', second, `Together they pay # dollars.`)
      return `At the ${place} an adult pays ${p} dollars and a child pays ${q} dollars. How many dollars do ${adults} adults and ${kids} children pay?`
    },
  },
  {
    name: 'wages',
    steps: [2, 4],
    tell(d, steps) {
      const { name, he } = d.person()
      const [hours, rate, tips] = [d.few(), d.few(), d.num()]
      const job = d.pick(['washing cars', 'painting', 'cleaning', 'cooking'])
      const wage = d.step(hours, '*', rate, `${name} earns # dollars.`)
      let all = d.step(wage, '+', tips, `With the tips that is # dollars.`)
      let more = ''
      if (steps > 2) {
        const spent = d.num()
        all = d.step(all, '-', spent, `After that ${name} has # dollars.`)
        more = ` and spends ${spent} dollars on food`
      }
      const start = `${name} earns ${rate} dollars an hour ${job}. ${capital(he)} works ${hours} hours, gets ${tips} dollars in tips${more}.`
      if (steps < 4) return `${start} How many dollars does ${name} have?`
      const k = d.few()
      d.step(all, '/', k, `Each jar gets # dollars.`)
      return `${start} The rest goes into ${k} jars equally. How many dollars go into each jar?`
    },
  },
  {
    name: 'recipe',
    steps: [2, 2],
    tell(d) {
      const { name } = d.person()
      const [cakes, eggs, have] = [d.few(), d.few(), d.num()]
      const dish = d.pick(['cake', 'pie', 'salad'])
      const need = d.step(cakes, '*', eggs, `${name} needs # eggs.`)
      d.step(need, '-', have, `${name} must buy # eggs.`)
      return `One ${dish} takes ${eggs} eggs. ${name} wants to make ${cakes} of them and has ${have} eggs. How many more eggs must ${name} buy?`
    },
  },
  {
    name: 'fishing',
    steps: [3, 4],
    tell(d, steps) {
      const { name, he } = d.person()
      const [hours, each, back, k] = [d.few(), d.few(), d.few(), d.few()]
      const caught = d.step(hours, '*', each, `${name} catches # fish.`)
      let kept = d.step(caught, '-', back, `${name} keeps # fish.`)
      let more = ''
      if (steps === 4) {
        const bought = d.num()
        kept = d.step(kept, '+', bought, `Then ${name} has # fish.`)
        more = ` ${capital(he)} buys ${bought} more.`
      }
      d.step(kept, '/', k, `Each bowl gets # fish.`)
      return `${name} catches ${each} fish an hour for ${hours} hours and lets ${back} go.${more} The fish go into ${k} bowls equally. How many fish are in each bowl?`
    },
  },
  {
    name: 'shelves',
    steps: [2, 3],
    tell(d, steps) {
      const things = d.thing()
      const [shelves, each, loose] = [d.few(), d.few(), d.num()]
      const room = d.pick(['shop', 'class', 'museum'])
      const shelved = d.step(shelves, '*', each, `The shelves hold # ${things}.`)
      const all = d.step(shelved, '+', loose, `In all there are # ${things}.`)
      const start = `A ${room} has ${shelves} shelves with ${each} ${things} each and ${loose} ${things} in a box.`
      if (steps === 2) return `${start} How many ${things} are there in all?`
      const k = d.few()
      d.step(all, '/', k, `Each table gets # ${things}.`)
      return `${start} All of them are moved to ${k} tables equally. How many ${things} are on each table?`
    },
  },
  {
    name: 'parking',
    steps: [3, 3],
    tell(d) {
      const [rows, each, out, back] = [d.few(), d.few(), d.num(), d.num()]
      const place = d.pick(['park', 'school', 'shop'])
      const all = d.step(rows, '*', each, `At first there are # cars.`)
      const left = d.step(all, '-', out, `After some leave there are # cars.`)
      d.step(left, '+', back, `In the end there are # cars.`)
      return `By the ${place} stand ${rows} rows of ${each} cars. At noon ${out} cars leave and ${back} cars come. How many cars are there now?`
    },
  },
  {
    name: 'three collectors',
    steps: [2, 4],
    tell(d, steps) {
      const [a, b, c] = [d.person(), d.person(), d.person()]
      const [things, n, more] = [d.thing(), d.num(), d.num()]
      const second = d.step(n, '+', more, `${b.name} has # ${things}.`)
      const start = `${a.name} has ${n} ${things}. ${b.name} has ${more} more than ${a.name}, and ${c.name} has twice as many as ${b.name}.`
      const third = d.step(second, '*', 2, `${c.name} has # ${things}.`)
      if (steps === 2) return `${start} How many ${things} does ${c.name} have?`
      const two = d.step(second, '+', third, `${b.name} and ${c.name} have # ${things}.`)
      if (steps === 3) return `${start} How many ${things} do ${b.name} and ${c.name} have together?`
      d.step(two, '+', n, `All three have # ${things}.`)
      return `${start} How many ${things} do all three have together?`
    },
  },
  {
    name: 'broken bottles',
    steps: [2, 3],
    tell(d, steps) {
      const [crates, each, broken] = [d.few(), d.few(), d.few()]
      const all = d.step(crates, '*', each, `There are # bottles.`)
      const good = d.step(all, '-', broken, `# bottles are whole.`)
      const start = `A truck brings ${crates} crates of ${each} bottles. On the way ${broken} bottles break.`
      if (steps === 2) return `${start} How many bottles are still whole?`
      const price = d.few()
      d.step(good, '*', price, `They bring in # dollars.`)
      return `${start} The others are sold for ${price} dollars each. How many dollars is that in all?`
    },
  },
  {
    name: 'walks',
    steps: [2, 3],
    tell(d, steps) {
      const { name, his } = d.person()
      const [days, each, extra] = [d.few(), d.few(), d.num()]
      const verb = d.pick(['walks', 'runs', 'rides', 'swims'])
      const first = d.step(days, '*', each, `In ${days} days that is # miles.`)
      const all = d.step(first, '+', extra, `In all that is # miles.`)
      const start = `${name} ${verb} ${each} miles a day for ${days} days and then ${extra} miles on the last day.`
      if (steps === 2) return `${start} How many miles is that in all?`
      const goal = d.num() + d.num()
      d.step(goal, '-', all, `${name} has # miles to go.`)
      return `${start} If ${his} goal is ${goal} miles, how many miles are still to go?`
    },
  },
  {
    name: 'teams',
    steps: [2, 3],
    tell(d, steps) {
      const [k, x, y] = [d.few(), d.num(), d.num()]
      const place = d.pick(['school', 'camp', 'club'])
      let all = d.step(x, '+', y, `There are # children.`)
      let late = ''
      if (steps === 3) {
        const n = d.few()
        all = d.step(all, '-', n, `With those at home gone there are # children.`)
        late = ` but ${n} children stay home`
      }
      d.step(all, '/', k, `Each team has # children.`)
      return `A ${place} has ${x} boys and ${y} girls${late}. They make ${k} equal teams. How many children are on each team?`
    },
  },
  {
    name: 'tank',
    steps: [2, 3],
    tell(d, steps) {
      const [hours, each, full] = [d.few(), d.few(), d.num() + d.num()]
      const what = d.pick(['tank', 'pool', 'barrel'])
      const used = d.step(hours, '*', each, `# liters flow out.`)
      const left = d.step(full, '-', used, `There are # liters left.`)
      const start = `A ${what} holds ${full} liters of water. Each hour ${each} liters flow out, for ${hours} hours.`
      if (steps === 2) return `${start} How many liters are left?`
      const rain = d.num()
      d.step(left, '+', rain, `After the rain there are # liters.`)
      return `${start} Then the rain adds ${rain} liters. How many liters are in the ${what} now?`
    },
  },
  {
    name: 'minutes',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [[one, many], k, each, rest] = [d.goods(), d.few(), d.few(), d.num()]
      const work = d.step(k, '*', each, `The work takes # minutes.`)
      const all = d.step(work, '+', rest, `With the rest it takes # minutes.`)
      const start = `${name} needs ${each} minutes to paint a ${one}. ${capital(he)} paints ${k} ${many} and rests for ${rest} minutes.`
      if (steps === 2) return `${start} How many minutes is that in all?`
      const limit = d.num() + d.num()
      d.step(limit, '-', all, `# minutes are left.`)
      return `${start} Out of ${limit} minutes, how many minutes are left?`
    },
  },
  {
    name: 'slices',
    steps: [3, 3],
    tell(d) {
      const { name } = d.person()
      const [k, slices, people, each] = [d.few(), d.few(), d.few(), d.few()]
      const dish = d.pick(['pizzas', 'cakes', 'pies'])
      const all = d.step(k, '*', slices, `There are # slices.`)
      const eaten = d.step(people, '*', each, `The friends eat # slices.`)
      d.step(all, '-', eaten, `There are # slices left.`)
      return `${name} cuts ${k} ${dish} into ${slices} slices each. Then ${people} friends eat ${each} slices each. How many slices are left?`
    },
  },
  {
    name: 'legs',
    steps: [3, 3],
    tell(d) {
      const { name } = d.person()
      const [two, four] = [d.pick(['hens', 'ducks', 'birds']), d.pick(['cows', 'sheep', 'dogs'])]
      const [x, y] = [d.num(), d.few()]
      const first = d.step(x, '*', 2, `The ${two} have # legs.`)
      const second = d.step(y, '*', 4, `The ${four} have # legs.`)
      d.step(first, '+', second, `Together that is # legs.`)
      return `${name} ${d.pick(['keeps', 'feeds', 'has', 'sees'])} ${x} ${two} with 2 legs each and ${y} ${four} with 4 legs each. How many legs do all the animals have?`
    },
  },
  {
    name: 'share of a find',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [things, k, each, had] = [d.thing(), d.few(), d.few(), d.num()]
      const share = d.step(k * each, '/', k, `The share of ${name} is # ${things}.`)
      const all = d.step(share, '+', had, `Then ${name} has # ${things}.`)
      const start = `${k} friends find ${k * each} ${things} and share them equally. ${name} is one of them and had ${had} ${things} before.`
      if (steps === 2) return `${start} How many ${things} does ${name} have now?`
      const gone = d.few()
      d.step(all, '-', gone, `${name} has # ${things} left.`)
      return `${start} Then ${he} gives away ${gone}. How many ${things} does ${name} have left?`
    },
  },
  {
    name: 'price cut',
    steps: [2, 3],
    tell(d, steps) {
      const { name } = d.person()
      const [[one, many], k, off, price] = [d.goods(), d.few(), d.few(), d.num()]
      const lower = d.step(price, '-', off, `Now a ${one} costs # dollars.`)
      const cost = d.step(lower, '*', k, `The ${many} cost # dollars.`)
      const start = `A ${one} that cost ${price} dollars is now ${off} dollars cheaper.`
      if (steps === 2) return `${start} How many dollars does ${name} pay for ${k} ${many}?`
      const fee = d.num()
      d.step(cost, '+', fee, `With the fee that is # dollars.`)
      return `${start} ${name} buys ${k} ${many} and pays a fee of ${fee} dollars. How many dollars does ${name} pay in all?`
    },
  },
  {
    name: 'album',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [pages, each, n] = [d.few(), d.few(), d.num() + d.num()]
      const what = d.pick(['photos', 'stamps', 'cards'])
      const held = d.step(pages, '*', each, `The album holds # ${what}.`)
      const start = `An album has ${pages} pages with room for ${each} ${what} on each page. ${name} has ${n} ${what}`
      const over = d.step(n, '-', held, `# ${what} do not fit.`)
      if (steps === 2) return `${start}. How many ${what} do not fit?`
      const gone = d.few()
      d.step(over, '-', gone, `# ${what} are left.`)
      return `${start}, fills the album and gives ${gone} of the others away. How many ${what} does ${he} have left outside the album?`
    },
  },
  {
    name: 'trade',
    steps: [2, 4],
    tell(d, steps) {
      const { name, he } = d.person()
      const [mine, theirs, n, had, k, rate] = [
        d.thing(),
        d.thing(),
        d.num(),
        d.num(),
        d.few(),
        d.pick([2, 3]),
      ]
      const got = d.step(k, '*', rate, `${name} gets # ${theirs}.`)
      const now = d.step(had, '+', got, `Then ${name} has # ${theirs}.`)
      const start = `${name} has ${n} ${mine} and ${had} ${theirs}, and trades ${k} ${mine} for ${rate} ${theirs} each.`
      if (steps === 2) return `${start} How many ${theirs} does ${name} have now?`
      if (steps === 3) {
        const lost = d.few()
        d.step(now, '-', lost, `${name} keeps # ${theirs}.`)
        return `${start} Then ${he} loses ${lost} ${theirs}. How many ${theirs} does ${name} have now?`
      }
      const left = d.step(n, '-', k, `${name} keeps # ${mine}.`)
      d.step(now, '+', left, `Together that is # things.`)
      return `${start} How many ${mine} and ${theirs} does ${name} have now in all?`
    },
  },
  {
    name: 'half lost',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [things, half, n] = [d.thing(), d.num(), d.num()]
      const left = d.step(2 * half, '/', 2, `${name} keeps # ${things}.`)
      const all = d.step(left, '+', n, `Then ${name} has # ${things}.`)
      const verb = d.pick(['loses', 'sells', 'gives away'])
      const start = `${name} has ${2 * half} ${things} and ${verb} half of them. The next day ${he} finds ${n} ${things}.`
      if (steps === 2) return `${start} How many ${things} does ${name} have then?`
      const k = d.pick([2, 3])
      d.step(all, '*', k, `${name} needs # ${things}.`)
      return `${start} To build a wall ${he} needs ${k} times as many as that. How many ${things} does ${he} need?`
    },
  },
  {
    name: 'bakery',
    steps: [3, 3],
    tell(d) {
      const { name } = d.person()
      const [trays, each, sold, k] = [d.few(), d.few(), d.num(), d.few()]
      const food = d.pick(['rolls', 'buns', 'muffins', 'cookies'])
      const all = d.step(trays, '*', each, `${name} bakes # ${food}.`)
      const left = d.step(all, '-', sold, `After the sale there are # ${food}.`)
      d.step(left, '/', k, `Each bag holds # ${food}.`)
      return `${name} bakes ${trays} trays of ${each} ${food} and sells ${sold} of them. The rest go into ${k} bags equally. How many ${food} are in each bag?`
    },
  },
  {
    name: 'cups of water',
    steps: [2, 3],
    tell(d, steps) {
      const [people, cups, days] = [d.few(), d.pick([2, 3, 4]), d.pick([2, 3, 4, 5])]
      const [group, drink] = [
        d.pick(['hikers', 'players', 'workers', 'friends']),
        d.pick(['water', 'tea', 'milk', 'juice']),
      ]
      const day = d.step(people, '*', cups, `In a day they drink # cups.`)
      const all = d.step(day, '*', days, `In ${days} days they drink # cups.`)
      const start = `Each of ${people} ${group} drinks ${cups} cups of ${drink} a day.`
      if (steps === 2) return `${start} How many cups do they drink in ${days} days?`
      const have = d.num()
      d.step(all, '-', have, `They need # more cups.`)
      return `${start} They have ${have} cups and are away for ${days} days. How many more cups do they need?`
    },
  },
  {
    name: 'lawns',
    steps: [3, 3],
    tell(d) {
      const { name, he } = d.person()
      const [lawns, pay, spent, saved] = [d.few(), d.few(), d.num(), d.num()]
      const earned = d.step(lawns, '*', pay, `${name} earns # dollars.`)
      const kept = d.step(earned, '-', spent, `${name} keeps # dollars.`)
      d.step(kept, '+', saved, `In all ${name} has # dollars.`)
      return `${name} mows ${lawns} lawns for ${pay} dollars each and spends ${spent} dollars on gas. With the ${saved} dollars ${he} had before, how many dollars does ${name} have?`
    },
  },
  {
    name: 'points',
    steps: [3, 4],
    tell(d, steps) {
      const { name } = d.person()
      const [twos, threes] = [d.few(), d.few()]
      const first = d.step(twos, '*', 2, `The easy shots give # points.`)
      const second = d.step(threes, '*', 3, `The long shots give # points.`)
      const all = d.step(first, '+', second, `${name} scores # points.`)
      const start = `${name} makes ${twos} easy shots for 2 points each and ${threes} long shots for 3 points each.`
      if (steps === 3) return `${start} How many points does ${name} score?`
      const b = d.person()
      const other = d.num()
      d.step(all, '+', other, `Together they score # points.`)
      return `${start} ${b.name} scores ${other} points. How many points do they score together?`
    },
  },
  {
    name: 'empty seats',
    steps: [2, 3],
    tell(d, steps) {
      const [rows, seats, people] = [d.few(), d.few(), d.num()]
      const what = d.pick(['train', 'plane', 'hall'])
      const all = d.step(rows, '*', seats, `There are # seats.`)
      const free = d.step(all, '-', people, `# seats are free.`)
      const start = `A ${what} has ${rows} rows of ${seats} seats. ${people} people sit down.`
      if (steps === 2) return `${start} How many seats are free?`
      const late = d.few()
      d.step(free, '-', late, `In the end # seats are free.`)
      return `${start} Then ${late} more people come. How many seats are free now?`
    },
  },
  {
    name: 'party bags',
    steps: [2, 3],
    tell(d, steps) {
      const { name } = d.person()
      const [x, y] = [d.thing(), d.thing()]
      const [a, b, k] = [d.few(), d.few(), d.few()]
      const each = d.step(a, '+', b, `Each bag holds # gifts.`)
      const all = d.step(each, '*', k, `The bags hold # gifts.`)
      const start = `${name} puts ${a} ${x} and ${b} ${y} into each of ${k} party bags.`
      if (steps === 2) return `${start} How many gifts are in all the bags together?`
      const over = d.num()
      d.step(all, '+', over, `At first there were # gifts.`)
      return `${start} Then ${over} gifts are left over. How many gifts did ${name} have at first?`
    },
  },
  {
    name: 'growing plant',
    steps: [2, 3],
    tell(d, steps) {
      const { name } = d.person()
      const plant = d.pick(['tree', 'vine', 'rose'])
      const [start, weeks, each] = [d.num(), d.few(), d.few()]
      const grown = d.step(weeks, '*', each, `It grows # inches.`)
      const tall = d.step(start, '+', grown, `Then it is # inches tall.`)
      const told = `The ${plant} of ${name} is ${start} inches tall and grows ${each} inches a week.`
      if (steps === 2) return `${told} How many inches tall is it after ${weeks} weeks?`
      const cut = d.num()
      d.step(tall, '-', cut, `After the cut it is # inches tall.`)
      return `${told} After ${weeks} weeks ${name} cuts off ${cut} inches. How many inches tall is it then?`
    },
  },
  {
    name: 'loads',
    steps: [3, 3],
    tell(d) {
      const [x, y, kg, lb] = [d.few(), d.few(), d.few(), d.few()]
      const what = d.pick(['van', 'boat', 'truck'])
      const first = d.step(x, '*', kg, `The big boxes weigh # pounds.`)
      const second = d.step(y, '*', lb, `The small boxes weigh # pounds.`)
      d.step(first, '+', second, `The load weighs # pounds.`)
      return `A ${what} carries ${x} big boxes of ${kg} pounds each and ${y} small boxes of ${lb} pounds each. How many pounds does it carry?`
    },
  },
  {
    name: 'two weeks',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [n, time, verb] = [
        d.num(),
        d.pick(['week', 'month', 'year']),
        d.pick(['saves', 'earns', 'makes']),
      ]
      const [word, times] = d.pick([['twice', 2] as const, ['three times', 3] as const])
      const second = d.step(n, '*', times, `In the second ${time} ${name} ${verb} # dollars.`)
      const all = d.step(n, '+', second, `In all ${name} ${verb} # dollars.`)
      const start = `In one ${time} ${name} ${verb} ${n} dollars, and ${word} as much in the next ${time}.`
      if (steps === 2) return `${start} How many dollars is that in all?`
      const goal = d.num() + d.num()
      d.step(goal, '-', all, `${name} still needs # dollars.`)
      return `${start} A ${d.goods()[0]} costs ${goal} dollars. How many more dollars does ${he} need?`
    },
  },
  {
    name: 'letters',
    steps: [2, 3],
    tell(d, steps) {
      const { name } = d.person()
      const [friends, pages, days] = [d.few(), d.pick([2, 3, 4]), d.pick([2, 3, 4, 5])]
      const once = d.step(friends, '*', pages, `One time that is # pages.`)
      const all = d.step(once, '*', days, `In ${days} weeks that is # pages.`)
      const start = `Every week ${name} writes letters of ${pages} pages to ${friends} friends.`
      if (steps === 2) return `${start} How many pages does ${name} write in ${days} weeks?`
      const paper = d.num() + d.num()
      d.step(paper, '-', all, `# pages are left.`)
      return `${start} Of ${paper} pages, how many are left after ${days} weeks?`
    },
  },
  {
    name: 'eggs sold',
    steps: [2, 3],
    tell(d, steps) {
      const { name, he } = d.person()
      const [hens, each, kept] = [d.few(), d.few(), d.few()]
      const laid = d.step(hens, '*', each, `The hens lay # eggs.`)
      const left = d.step(laid, '-', kept, `${name} sells # eggs.`)
      const start = `${name} has ${hens} hens that lay ${each} eggs each in a week. ${capital(he)} keeps ${kept} eggs and sells the rest`
      if (steps === 2) return `${start}. How many eggs does ${name} sell?`
      const price = d.pick([2, 3])
      d.step(left, '*', price, `${name} gets # dollars.`)
      return `${start} for ${price} dollars each. How many dollars does ${name} get?`
    },
  },
  {
    name: 'score gap',
    steps: [2, 3],
    tell(d, steps) {
      const [a, b] = [d.person(), d.person()]
      const [x, y, z] = [d.num(), d.num(), d.num()]
      const game = d.pick(['game', 'round', 'match'])
      const sum = d.step(x, '+', y, `${a.name} scores # points.`)
      const start = `${a.name} scores ${x} points in the first ${game} and ${y} in the second. ${b.name} scores ${z}`
      if (steps === 2) {
        d.step(sum, '-', z, `That is # points more.`)
        return `${start} points in all. How many more points does ${a.name} score?`
      }
      const other = d.step(z, '*', 2, `${b.name} scores # points.`)
      d.step(sum, '-', other, `That is # points more.`)
      return `${start} points in each ${game}. How many more points does ${a.name} score in all?`
    },
  },
  {
    name: 'two days of picking',
    steps: [3, 4],
    tell(d, steps) {
      const { name, he } = d.person()
      const food = d.pick(['apples', 'pears', 'plums', 'beans'])
      const [x, more, k] = [d.num(), d.num(), d.few()]
      const second = d.step(x, '+', more, `On the second day ${name} picks # ${food}.`)
      let all = d.step(x, '+', second, `In both days ${name} picks # ${food}.`)
      let bad = ''
      if (steps === 4) {
        const n = d.few()
        all = d.step(all, '-', n, `# ${food} are good.`)
        bad = ` but ${n} are bad`
      }
      d.step(all, '/', k, `Each basket gets # ${food}.`)
      return `${name} picks ${x} ${food} on one day and ${more} more than that on the next${bad}. If ${he} fills ${k} baskets equally, how many ${food} go into each?`
    },
  },
]
